//! Sets completed tasks back to pending, because what landed for them was taken back.

use serde::{Deserialize, Serialize};

use std::collections::BTreeSet;

use super::{Change, Refusal, Reply, change::Draft, find};
use crate::{
    TaskId, Timestamp,
    fact::Fact,
    ledger::Ledger,
    task::{ErrorEntry, Status, TaskState},
};

/// Sets completed tasks back to pending. A task that is pending already stays as it is, so that the
/// command can be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reopen {
    /// The tasks.
    pub tasks: Vec<TaskId>,
    /// The reason, for the log and for the next attempt.
    pub reason: String,
}

impl Reopen {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut draft = Draft::new(ledger);
        let mut phases = BTreeSet::new();
        for id in &self.tasks {
            let task = find(ledger, id)?;
            match task.status() {
                Status::Completed => {}
                Status::Pending => continue,
                status @ (Status::InProgress | Status::Failed) => {
                    let what = format!("Task {id} is {status}, not completed");
                    return Err(Refusal::BadValue(what));
                }
            }
            phases.extend(task.phase.as_deref());
            draft.edit(id, |task| {
                task.fail(now, ErrorEntry::new(None, format!("Reverted: {}", self.reason)));
                task.state = TaskState::Pending;
                task.attempts = 0;
                task.conflicts.clear();
            });
            draft.facts.push(Fact::Recovered {
                task: id.clone(),
                action: "revert".into(),
                reason: self.reason.clone(),
            });
        }
        let dependents = completed_dependents(ledger, &self.tasks);
        let mut change = draft.finish(Reply::Reopened { tasks: self.tasks.clone(), dependents });
        if ledger.head().phases.iter().any(|p| passed(p, &phases)) {
            let mut head = ledger.head().clone();
            // The gate was passed with work that is not there any more.
            head.phases.iter_mut().filter(|p| passed(p, &phases)).for_each(|p| p.passed_at = None);
            change.head = Some(head);
        }
        Ok(change)
    }
}

fn passed(phase: &crate::ledger::Phase, named: &BTreeSet<&str>) -> bool {
    phase.passed_at.is_some() && named.contains(phase.name.as_str())
}

/// Returns the completed tasks that depend, directly or not, on one of `tasks`, without these
/// themselves, in the order of the ledger.
pub fn completed_dependents(ledger: &Ledger, tasks: &[TaskId]) -> Vec<TaskId> {
    let mut reached: BTreeSet<&TaskId> = BTreeSet::new();
    let mut left: Vec<&TaskId> = tasks.iter().collect();
    while let Some(id) = left.pop() {
        for dependent in ledger.selection().dependents(id) {
            if reached.insert(dependent) {
                left.push(dependent);
            }
        }
    }
    let completed = ledger.tasks().filter(|task| task.status() == Status::Completed);
    let found = completed.filter(|task| reached.contains(&task.id) && !tasks.contains(&task.id));
    found.map(|task| task.id.clone()).collect()
}
