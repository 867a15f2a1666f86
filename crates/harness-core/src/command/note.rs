//! Adds a line to the log without changing a task.

use serde::{Deserialize, Serialize};

use super::{Change, Reply};
use crate::{
    Category, RunId, TaskId,
    fact::{Fact, ObjectiveStep},
    ledger::Ledger,
};

/// A line for the log. It is never refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// The init script ran.
    HealthCheck {
        /// `true` if the exit code was 0.
        passed: bool,
    },
    /// A person must fix something before the work can continue.
    Problem {
        /// The task; `None` if it concerns the whole ledger.
        task: Option<TaskId>,
        /// The category in the ERROR line, before the message.
        category: Category,
        /// The text for people.
        message: String,
    },
    /// A warning that requires no action.
    Warning {
        /// The task; `None` if it concerns the whole ledger.
        task: Option<TaskId>,
        /// The text for people.
        message: String,
    },
    /// Something happened to the objective of a run.
    Objective {
        /// The row of the run.
        run: RunId,
        /// The event.
        step: ObjectiveStep,
        /// The text for people. The log puts the word "Objective" before it.
        message: String,
    },
}

impl Note {
    /// The head stores the log lines of the last change, so a line alone is a change of the head
    /// too.
    pub(super) fn decide(&self, ledger: &Ledger) -> Change {
        let fact = match self.clone() {
            Self::HealthCheck { passed } => Fact::HealthCheck { passed },
            Self::Problem { task, category, message } => Fact::Problem { task, category, message },
            Self::Warning { task, message } => Fact::Warned { task, message },
            Self::Objective { run, step, message } => Fact::Objective { run, step, message },
        };
        let head = Some(ledger.head().clone());
        Change { head, rows: Vec::new(), facts: vec![fact], reply: Reply::Noted }
    }
}
