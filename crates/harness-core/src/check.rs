//! The meaning of the end of a check. Validation, gates and verification are all judged here.

use crate::Category;

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command ended by itself.
    Code(i32),
    /// A signal killed the command, and harness did not send it.
    Signal(i32),
    /// Harness killed the command when its time was up.
    TimedOut,
    /// Harness killed the command because somebody asked for it.
    Cancelled,
}

/// The result of looking up the command before it is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The command was found, or it is not known to be missing.
    Yes,
    /// Its first word is a plain word that names no program.
    No,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The exit code was 0. No other end of a check counts as passed.
    Passed,
    /// The work is not good enough.
    Red {
        /// The exit code or the signal, as text.
        why: String,
    },
    /// The check took too long.
    TimedOut,
    /// The environment lacks the check, so it says nothing about the work.
    Missing,
    /// Somebody stopped the check, so it says nothing about the work.
    Cancelled,
}

impl Verdict {
    /// Judges the result of the lookup before the run and the end of the run.
    pub fn of(found: Found, exit: Exit) -> Self {
        match (found, exit) {
            (Found::No, _) | (_, Exit::Code(127)) => Self::Missing,
            (_, Exit::Code(0)) => Self::Passed,
            (_, Exit::Code(code)) => Self::Red { why: format!("exit code {code}") },
            (_, Exit::Signal(signal)) => Self::Red { why: format!("killed by signal {signal}") },
            (_, Exit::TimedOut) => Self::TimedOut,
            (_, Exit::Cancelled) => Self::Cancelled,
        }
    }

    /// Returns a short phrase about the problem; `None` if the check passed.
    pub fn complaint(&self) -> Option<String> {
        match self {
            Self::Passed => None,
            Self::Red { why } => Some(why.clone()),
            Self::TimedOut => Some("it took too long".to_owned()),
            Self::Missing => Some("it cannot be run here".to_owned()),
            Self::Cancelled => Some("it was stopped".to_owned()),
        }
    }

    /// Returns the category of the failure; `None` if the check passed or was cancelled.
    pub fn category(&self) -> Option<Category> {
        match self {
            Self::Passed | Self::Cancelled => None,
            Self::Red { .. } => Some(Category::TestFail),
            Self::TimedOut => Some(Category::Timeout),
            Self::Missing => Some(Category::EnvSetup),
        }
    }
}

/// Returns the message for a check that took longer than its limit of `seconds`.
pub fn took_too_long(seconds: u64) -> String {
    format!("the check took longer than {} s", seconds.max(1))
}

/// The result of a check before any work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Baseline {
    /// The check passed, so a pass after the work proves nothing.
    Green,
    /// The check failed, as it should before the work.
    Red,
}

impl Baseline {
    /// Returns `None` for a verdict that says nothing about the work.
    pub fn of(verdict: &Verdict) -> Option<Self> {
        match verdict {
            Verdict::Passed => Some(Self::Green),
            Verdict::Red { .. } | Verdict::TimedOut => Some(Self::Red),
            Verdict::Missing | Verdict::Cancelled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exit_of_zero_passes() {
        for (found, exit, category) in [
            (Found::Yes, Exit::Code(0), None),
            (Found::Yes, Exit::Code(1), Some(Category::TestFail)),
            (Found::Yes, Exit::Code(126), Some(Category::TestFail)),
            (Found::Yes, Exit::Code(127), Some(Category::EnvSetup)),
            (Found::No, Exit::Code(0), Some(Category::EnvSetup)),
            (Found::Yes, Exit::Signal(9), Some(Category::TestFail)),
            (Found::Yes, Exit::TimedOut, Some(Category::Timeout)),
            (Found::Yes, Exit::Cancelled, None),
        ] {
            let verdict = Verdict::of(found, exit);
            assert_eq!(verdict.category(), category, "{found:?} {exit:?}");
            assert_eq!(verdict == Verdict::Passed, exit == Exit::Code(0) && found == Found::Yes);
        }
    }
}
