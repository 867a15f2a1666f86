//! Returns a claimed task to pending without counting an attempt.

use serde::{Deserialize, Serialize};

use super::{Change, Holder, Refusal, Reply, find, landing};
use crate::{TaskId, fact::Fact, ledger::Ledger, task::TaskState};

/// Ends a claim without an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The task to release.
    pub task: TaskId,
    /// If set, only this holder's claim is released. `None` if a person decided.
    pub holder: Option<Holder>,
    /// The reason, for the log.
    pub reason: String,
}

impl Release {
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let task = match &self.holder {
            Some(holder) => holder.claimed(ledger)?,
            None => find(ledger, &self.task)?,
        };
        if task.claim().is_none() {
            return Err(Refusal::NotClaimed { task: task.id.clone(), status: task.status() });
        }
        if task.intent().is_some() {
            return Err(Refusal::Undecided { task: task.id.clone() });
        }
        let mut task = task.clone();
        task.state = TaskState::Pending;
        let id = task.id.clone();
        let fact = Fact::Recovered {
            task: id.clone(),
            action: "release".into(),
            reason: self.reason.clone(),
        };
        let head = landing::without(ledger.head(), &id);
        Ok(Change { head, ..Change::put(task, fact, Reply::Task(id)) })
    }
}
