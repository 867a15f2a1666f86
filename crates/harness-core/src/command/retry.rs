//! A failed task gets a new set of attempts; the tasks that were failed because of it are as they
//! were before that.

use std::collections::VecDeque;

use super::{Change, Refusal, Reply, change::Draft, find};
use crate::{
    TaskId,
    fact::Fact,
    ledger::Ledger,
    task::{FailureCause, Task, TaskState},
};

/// A person wants a failed task tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Which one; it has failed.
    pub task: TaskId,
    /// For the log.
    pub reason: String,
}

impl Retry {
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let task = find(ledger, &self.task)?;
        if task.failure().is_none() {
            return Err(Refusal::NotFailed { task: task.id.clone(), status: task.status() });
        }
        let mut draft = Draft::new(ledger);
        draft.edit(&self.task, |t| {
            t.state = TaskState::Pending;
            t.attempts = 0;
            t.retain_errors(|e| !e.cause.is_dependency());
        });
        // Whom it blocked, and whom those blocked. If another failed task still holds one of them
        // up, the next choice finds that out anew.
        let mut freed = VecDeque::from([self.task.clone()]);
        while let Some(by) = freed.pop_front() {
            let blocked = FailureCause::Dependency(by.clone());
            for id in ledger.selection().dependents(&by) {
                let waits = |t: &Task| {
                    t.failure().is_some() && t.error_log.iter().any(|e| e.cause == blocked)
                };
                if !draft.task(id).is_some_and(waits) {
                    continue;
                }
                draft.edit(id, |t| {
                    t.retain_errors(|e| e.cause != blocked);
                    let freed = t.failure().is_some_and(|f| !f.cause.is_dependency());
                    if t.attempts == 0 && freed {
                        // It never had its turn.
                        t.state = TaskState::Pending;
                    }
                });
                if draft.task(id).is_some_and(Task::unfinished) {
                    freed.push_back(id.clone());
                }
            }
        }
        draft.facts.push(Fact::Recovered {
            task: self.task.clone(),
            action: "retry".into(),
            reason: self.reason.clone(),
        });
        Ok(draft.finish(Reply::Task(self.task.clone())))
    }
}
