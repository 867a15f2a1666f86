//! What the end of a check means. Validation, gates and verification are all judged here.

use crate::Category;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// Killed, and not by us.
    Signal(i32),
    /// Killed by us when its time was up.
    TimedOut,
    /// Killed by us because somebody asked.
    Cancelled,
}

/// Whether the shell knows the command, looked at before it is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Or not known to be missing.
    Yes,
    /// Its first word is a plain word that names no program.
    No,
}

/// What a check says about the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Exit code 0, and nothing else.
    Passed,
    /// The work is not good enough.
    Red {
        /// The exit code or the signal, in words.
        why: String,
    },
    /// It took too long.
    TimedOut,
    /// The environment lacks the check: that says nothing about the work.
    Missing,
    /// Somebody stopped it: it says nothing.
    Cancelled,
}

impl Verdict {
    /// From the look before the run and its end.
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

    /// What is wrong, in a few words about "it"; `None` for what passed.
    pub fn complaint(&self) -> Option<String> {
        match self {
            Self::Passed => None,
            Self::Red { why } => Some(why.clone()),
            Self::TimedOut => Some("it took too long".to_owned()),
            Self::Missing => Some("it cannot be run here".to_owned()),
            Self::Cancelled => Some("it was stopped".to_owned()),
        }
    }

    /// What the failure counts as; none for what is not the work's fault or no failure.
    pub fn category(&self) -> Option<Category> {
        match self {
            Self::Passed | Self::Cancelled => None,
            Self::Red { .. } => Some(Category::TestFail),
            Self::TimedOut => Some(Category::Timeout),
            Self::Missing => Some(Category::EnvSetup),
        }
    }
}

/// Of a check that might take so many seconds.
pub fn took_too_long(seconds: u64) -> String {
    format!("the check took longer than {} s", seconds.max(1))
}

/// What a check said before any work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Baseline {
    /// It passed: that it passes after the work proves nothing.
    Green,
    /// As it should be.
    Red,
}

impl Baseline {
    /// `None` for what says nothing.
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
