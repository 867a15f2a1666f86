//! A task taken out of the ledger.

use super::{Change, Refusal, Reply, Row, find};
use crate::{
    TaskId, WorkerId,
    fact::Fact,
    ledger::{Head, Ledger},
    task::Task,
};

/// Refused while somebody works on the task or another one needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remove {
    /// Which one.
    pub task: TaskId,
}

impl Remove {
    /// Not while somebody works on it, and not while another task needs it: a dependency that does
    /// not exist would stop everything.
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let task = find(ledger, &self.task)?;
        if task.claim().is_some() {
            return Err(in_progress(task));
        }
        // A task that waits on itself, as only a hand can write it, is no reason to keep it.
        let others = ledger.selection().dependents(&self.task).filter(|id| **id != self.task);
        let by: Vec<TaskId> = others.cloned().collect();
        if !by.is_empty() {
            return Err(Refusal::Needed { task: self.task.clone(), by });
        }
        // The counter must not fall back behind an epoch that only this row remembered.
        let epoch = ledger.epoch();
        let head = (ledger.head().epoch < epoch).then(|| Head { epoch, ..ledger.head().clone() });
        Ok(Change {
            head,
            rows: vec![Row::Drop(self.task.clone())],
            facts: vec![Fact::Removed { task: self.task.clone() }],
            reply: Reply::Task(self.task.clone()),
        })
    }
}

pub(super) fn in_progress(task: &Task) -> Refusal {
    let worker = task.claimed_by().cloned().unwrap_or_else(|| WorkerId::recorded("nobody"));
    Refusal::InProgress { task: task.id.clone(), worker }
}
