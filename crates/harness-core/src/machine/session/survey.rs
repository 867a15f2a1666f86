//! What a session finds before it does anything, and what there is to look at.

use crate::{Task, TaskId, Timestamp, WorkerId, ledger::Ledger, machine::recovery};

/// What is there before anything is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Tracked files with changes that no interrupted task explains.
    pub dirty: Vec<String>,
    /// A client that holds a task under a live lease.
    pub client: Option<(TaskId, WorkerId)>,
    /// Interrupted attempts, with what is left of them.
    pub interrupted: Vec<Interrupted>,
    /// What was there to look at before.
    pub alerts: Alerts,
}

/// The alerts of a ledger at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alerts {
    /// How many nobody has acknowledged.
    pub count: usize,
    /// When the last one was raised.
    pub last: Option<Timestamp>,
}

impl Alerts {
    /// As they stand in a ledger.
    pub fn of(ledger: &Ledger) -> Self {
        let alerts = &ledger.head().alerts;
        Self { count: alerts.len(), last: alerts.last().map(|alert| alert.time) }
    }

    /// Whether one was raised since `earlier`.
    pub fn grew_since(&self, earlier: &Self) -> bool {
        self.count > earlier.count || self.last > earlier.last
    }
}

/// An attempt whose session is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupted {
    /// As it was found, `in_progress`.
    pub task: Task,
    /// What recovery is decided by.
    pub evidence: recovery::Evidence,
    /// What else a person should know, e.g. a stash that is younger than the claim.
    pub remark: Option<String>,
}
