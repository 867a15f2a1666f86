//! A failed task gets a new set of attempts; the tasks that were failed because of it are as they
//! were before that.

use std::collections::VecDeque;

use super::{Change, Refusal, Reply, change::Draft, find, upkeep::blocked_message};
use crate::{
    Category, TaskId,
    fact::Fact,
    ledger::Ledger,
    task::{Status, Task, is_dependency_entry},
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
        if task.status != Status::Failed {
            return Err(Refusal::NotFailed { task: task.id.clone(), status: task.status });
        }
        let mut draft = Draft::new(ledger);
        draft.edit(&self.task, |t| {
            t.status = Status::Pending;
            t.attempts = 0;
            t.failed_at = None;
            t.error_log.retain(|e| !is_dependency_entry(e));
        });
        // Whom it blocked, and whom those blocked. If another failed task still holds one of them
        // up, the next choice finds that out anew.
        let mut freed = VecDeque::from([self.task.clone()]);
        while let Some(by) = freed.pop_front() {
            let entry = format!("[{}] {}", Category::Dependency, blocked_message(&by));
            for id in ledger.selection().dependents(&by) {
                let waits = |t: &Task| t.status == Status::Failed && t.error_log.contains(&entry);
                if !draft.task(id).is_some_and(waits) {
                    continue;
                }
                draft.edit(id, |t| {
                    t.error_log.retain(|e| *e != entry);
                    if t.attempts == 0 && t.dependency_entry().is_none() {
                        // It never had its turn.
                        t.status = Status::Pending;
                        t.failed_at = None;
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
