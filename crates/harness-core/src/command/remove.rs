//! Removes a task from the ledger.

use serde::{Deserialize, Serialize};

use super::{Change, Refusal, Reply, Row, find};
use crate::{
    TaskId, WorkerId,
    fact::Fact,
    ledger::{Head, Ledger},
    task::Task,
};

/// Removes a task. It is refused while a worker holds the task or another task needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remove {
    /// The task to remove.
    pub task: TaskId,
}

impl Remove {
    /// Refuses while a worker holds the task, and while another task needs it. A dependency that
    /// does not exist would block the whole ledger.
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let task = find(ledger, &self.task)?;
        if task.claim().is_some() {
            return Err(in_progress(task));
        }
        // A task that depends on itself, which only an edit by hand can create, may be removed.
        let others = ledger.selection().dependents(&self.task).filter(|id| **id != self.task);
        let by: Vec<TaskId> = others.cloned().collect();
        if !by.is_empty() {
            return Err(Refusal::Needed { task: self.task.clone(), by });
        }
        // The counter must not fall behind an epoch that only this row remembers.
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
