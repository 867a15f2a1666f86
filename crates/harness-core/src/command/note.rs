//! Something for the log that changes no task.

use super::{Change, Reply};
use crate::{Category, TaskId, fact::Fact, ledger::Ledger};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The init script ran.
    HealthCheck {
        passed: bool,
    },
    /// A person must mend something before the work can go on.
    Problem {
        task: Option<TaskId>,
        category: Category,
        message: String,
    },
    Warning {
        task: Option<TaskId>,
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
