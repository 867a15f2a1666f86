//! The survey before a session, and the alerts of a ledger.

use crate::{Task, TaskId, Timestamp, WorkerId, ledger::Ledger, machine::recovery};

/// The state of a project before anything is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Tracked files with changes that no interrupted task explains.
    pub dirty: Vec<String>,
    /// A client that holds a task under a live lease.
    pub client: Option<(TaskId, WorkerId)>,
    /// Interrupted attempts, with the evidence about them.
    pub interrupted: Vec<Interrupted>,
    /// The alerts before the session.
    pub alerts: Alerts,
}

/// The alerts of a ledger at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alerts {
    /// The number of alerts that are not acknowledged.
    pub count: usize,
    /// The time at which the last one was raised.
    pub last: Option<Timestamp>,
}

impl Alerts {
    /// Returns the alerts of a ledger.
    pub fn of(ledger: &Ledger) -> Self {
        let alerts = &ledger.head().alerts;
        Self { count: alerts.len(), last: alerts.last().map(|alert| alert.time) }
    }

    /// Returns whether one was raised since `earlier`.
    pub fn grew_since(&self, earlier: &Self) -> bool {
        self.count > earlier.count || self.last > earlier.last
    }
}

/// An attempt whose session is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupted {
    /// The task as it was found, `in_progress`.
    pub task: Task,
    /// The evidence by which recovery is decided.
    pub evidence: recovery::Evidence,
    /// A further remark for a person, for example about a stash that is younger than the claim.
    pub remark: Option<String>,
}
