//! The result of one check.

use clap::builder::styling::{AnsiColor, Style};
use serde_json::{Value, json};

use crate::{
    failure::{Failure, Result},
    paint::{coloured, one_line},
    render::Out,
};

pub(super) struct Finding {
    pub(super) level: Level,
    /// The part that was checked.
    pub(super) check: &'static str,
    pub(super) what: String,
    /// The instruction to fix it; empty if nothing is to be done.
    pub(super) fix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Ok,
    Warn,
    Fail,
    /// A failure of the ledger or the configuration: a person must fix a file.
    Broken,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail | Self::Broken => "fail",
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Ok => coloured(AnsiColor::Green),
            Self::Warn => coloured(AnsiColor::Yellow),
            Self::Fail | Self::Broken => coloured(AnsiColor::Red).bold(),
        }
    }
}

impl Finding {
    pub(super) fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self { level: Level::Ok, check, what: what.into(), fix: String::new() }
    }

    pub(super) fn warn(
        check: &'static str,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { level: Level::Warn, check, what: what.into(), fix: fix.into() }
    }

    pub(super) fn fail(
        check: &'static str,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { level: Level::Fail, check, what: what.into(), fix: fix.into() }
    }

    pub(super) fn failure(check: &'static str, failure: &Failure) -> Self {
        Self::fail(check, failure.error.clone(), failure.hints.join("; "))
    }

    pub(super) fn broken(check: &'static str, failure: &Failure) -> Self {
        Self { level: Level::Broken, ..Self::failure(check, failure) }
    }

    pub(super) fn document(&self) -> Value {
        let Self { level, check, what, fix } = self;
        let fix = Some(fix).filter(|fix| !fix.is_empty());
        json!({ "level": level.name(), "check": check, "what": what, "mend": fix })
    }
}

pub(super) fn print(out: &mut Out, findings: &[Finding]) -> Result<()> {
    let paint = out.paint();
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    for Finding { level, check, what, fix } in findings {
        let level = paint.style(level.style(), format!("{:<4}", level.name()));
        let fix = if fix.is_empty() { String::new() } else { format!(" — {}", one_line(fix)) };
        out.line(format_args!("{level}  {check:<width$}  {}{fix}", one_line(what)))?;
    }
    Ok(())
}
