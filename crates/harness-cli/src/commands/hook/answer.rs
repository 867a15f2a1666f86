//! The answer of a hook to its agent.

use serde_json::{Value, json};

use crate::{exit::ExitCode, paint::visible};

/// The answer of a hook, and whether the agent may do what it was about to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) ending: Ending,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ending {
    #[default]
    Done,
    /// Exit code 2, by which agents learn that they must go on, with the reason on standard error.
    GoOn,
}

impl Ending {
    pub(super) const fn exit_code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::Done,
            // Agents define this number. It does not mean wrong usage here.
            Self::GoOn => ExitCode::Usage,
        }
    }
}

impl Answer {
    pub(super) fn silent() -> Self {
        Self::default()
    }

    pub(super) fn json(document: &Value) -> Self {
        Self { stdout: format!("{document}\n"), ..Self::default() }
    }

    pub(super) fn block(reason: &str) -> Self {
        Self::json(&json!({ "decision": "block", "reason": reason }))
    }

    pub(super) fn go_on(reason: &str) -> Self {
        Self { stderr: format!("{reason}\n"), ending: Ending::GoOn, ..Self::default() }
    }

    pub(super) fn warn(self, text: &str) -> Self {
        Self { stderr: format!("{}HARNESS: WARN {}\n", self.stderr, visible(text)), ..self }
    }
}
