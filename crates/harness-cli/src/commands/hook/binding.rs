//! The request to a session with `/harness`: to stay with the ledger, or with one objective.
//!
//! It is stored in a file per session, not in `.harness-active`, because an id in that file would
//! exclude all sessions that are not named there.

use harness_core::run::Run;
use serde::{Deserialize, Serialize};

use super::project::{Project, session_file, shortened};

/// The limit of an objective, because a prompt has none.
const OBJECTIVE_CHARACTERS: usize = 20_000;
/// The number of times that a session is sent back to its objective.
const RESTARTS_MAX: u32 = 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kept_at", rename_all = "snake_case")]
pub(super) enum Binding {
    Ledger,
    Objective(Pursuit),
}

/// The progress of a session with an objective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pursuit {
    pub(super) objective: String,
    pub(super) promise: String,
    pub(super) restarts: u32,
    pub(super) max_restarts: u32,
    /// Turns without text, which do not count as restarts.
    #[serde(default)]
    pub(super) silent_turns: u32,
}

impl Pursuit {
    pub(super) fn of(objective: &str) -> Self {
        Self {
            objective: shortened(objective.trim(), OBJECTIVE_CHARACTERS),
            promise: Run::PROMISE.to_owned(),
            restarts: 0,
            max_restarts: RESTARTS_MAX,
            silent_turns: 0,
        }
    }
}

impl Binding {
    /// Returns the request; `None` if there is none, or if the file is invalid.
    pub(super) fn read(project: &Project<'_>, session: &str) -> Option<Self> {
        serde_json::from_str(&project.read_own(&file(session))?).ok()
    }

    pub(super) fn write(&self, project: &Project<'_>, session: &str) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|why| why.to_string())?;
        project.write_own(&file(session), &text)
    }

    pub(super) fn remove(project: &Project<'_>, session: &str) {
        project.remove_own(&file(session));
    }
}

fn file(session: &str) -> String {
    session_file("session", session)
}
