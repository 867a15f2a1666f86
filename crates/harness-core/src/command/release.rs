//! A claimed task goes back to pending; no attempt is counted.

use super::{Change, Holder, Refusal, Reply, find};
use crate::{TaskId, fact::Fact, ledger::Ledger, task::TaskState};

/// Ends a claim without an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Which one.
    pub task: TaskId,
    /// `Some`: only if this is who holds it. `None`: a person decided.
    pub holder: Option<Holder>,
    /// For the log.
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
        Ok(Change::put(task, fact, Reply::Task(id)))
    }
}
