//! Something for the log that changes no task.

use super::{Change, Reply};
use crate::{Category, TaskId, fact::Fact, ledger::Ledger};

/// What the log is told. It is never refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The init script ran.
    HealthCheck {
        /// It ended with exit code 0.
        passed: bool,
    },
    /// A person must mend something before the work can go on.
    Problem {
        /// `None`: it is about the whole ledger.
        task: Option<TaskId>,
        /// In the ERROR line, before the message.
        category: Category,
        /// For people.
        message: String,
    },
    /// Nothing has to be done about it.
    Warning {
        /// `None`: it is about the whole ledger.
        task: Option<TaskId>,
        /// For people.
        message: String,
    },
}

impl Note {
    /// The ledger carries the lines of its last change, so a line alone is a change too.
    pub(super) fn decide(&self, ledger: &Ledger) -> Change {
        let fact = match self.clone() {
            Self::HealthCheck { passed } => Fact::HealthCheck { passed },
            Self::Problem { task, category, message } => Fact::Problem { task, category, message },
            Self::Warning { task, message } => Fact::Warned { task, message },
        };
        let head = Some(ledger.head().clone());
        Change { head, rows: Vec::new(), facts: vec![fact], reply: Reply::Noted }
    }
}
