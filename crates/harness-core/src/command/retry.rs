//! Gives a failed task a new set of attempts. Tasks that failed because of it return to their
//! earlier state.

use serde::{Deserialize, Serialize};

use std::collections::VecDeque;

use super::{Change, Refusal, Reply, change::Draft, find};
use crate::{
    TaskId,
    fact::Fact,
    ledger::Ledger,
    task::{FailureCause, Task, TaskState},
};

/// Retries a failed task because a person asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The failed task.
    pub task: TaskId,
    /// The reason, for the log.
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
        // Follow the tasks that it blocked, and those that they blocked. If another failed task
        // still blocks one of them, the next selection finds that again.
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
                        // The task was never tried.
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
