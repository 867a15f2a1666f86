//! Measures costs, each against a yardstick from the same run, because machines are noisy and
//! ratios less so. `cargo xtask bench` builds and runs it.

mod daemon;
mod gap;
mod hub;
mod program;
mod report;
mod repository;
mod store;

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
    let harness = harness.ok_or("usage: harness-bench PATH-OF-HARNESS [--quick]")?;
    let mut report = Report::default();
    program::measure(&harness, effort, &mut report)?;
    store::measure(effort, &mut report)?;
    daemon::measure(&harness, effort, &mut report)?;
    hub::measure(effort, &mut report)?;
    gap::measure(&harness, effort, &mut report)?;
    repository::measure(&harness, effort, &mut report)?;
    report.print();
    Ok(())
}
