//! Measures costs, each against a yardstick from the same run, because machines are noisy and
//! ratios less so. `cargo xtask bench` builds and runs it.

mod daemon;
mod gap;
mod hub;
mod landing;
mod postgres;
mod program;
mod report;
mod repository;
mod silence;
mod site;
mod store;
mod views;

use std::path::PathBuf;

use report::Report;

/// The number of measurements.
#[derive(Debug, Clone, Copy)]
enum Effort {
    Full,
    Quick,
}

impl Effort {
    fn rounds(self, full: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Quick => (full / 10).max(3),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let effort =
        if arguments.iter().any(|a| a == "--quick") { Effort::Quick } else { Effort::Full };
    let harness = arguments.iter().find(|a| !a.starts_with('-')).map(PathBuf::from);
    let harness = harness.ok_or("usage: harness-bench PATH-OF-HARNESS [--quick] [--only=PART]")?;
    let only = arguments.iter().find_map(|a| a.strip_prefix("--only="));
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let mut report = Report::default();
    if wanted("program") {
        program::measure(&harness, effort, &mut report)?;
    }
    if wanted("store") {
        store::measure(effort, &mut report)?;
    }
    if wanted("daemon") {
        daemon::measure(&harness, effort, &mut report)?;
    }
    if wanted("hub") {
        hub::measure(effort, &mut report)?;
    }
    if wanted("gap") {
        gap::measure(&harness, effort, &mut report)?;
    }
    if wanted("repository") {
        repository::measure(&harness, effort, &mut report)?;
    }
    if wanted("landing") {
        landing::measure(&harness, effort, &mut report)?;
    }
    if wanted("views") {
        views::measure(&harness, effort, &mut report)?;
    }
    if wanted("postgres") {
        postgres::measure(effort, &mut report)?;
    }
    if wanted("silence") {
        silence::measure(&harness, effort, &mut report)?;
    }
    report.print();
    Ok(())
}
