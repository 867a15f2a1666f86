//! The tasks that a run works on: all of the ledger, or some that a person chose.

use std::collections::BTreeSet;

use crate::{
    Ledger, Task, TaskId, command::ClaimChoice, ledger::Phase, standing::Standing, task::Status,
};

/// The tasks that a run works on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TaskScope {
    /// All tasks of the ledger, and the gates of its phases.
    #[default]
    Ledger,
    /// These tasks only. Gates are not tried.
    Tasks(BTreeSet<TaskId>),
}

impl TaskScope {
    /// Whether the run works on this task.
    pub fn contains(&self, task: &TaskId) -> bool {
        match self {
            Self::Ledger => true,
            Self::Tasks(chosen) => chosen.contains(task),
        }
    }

    /// The next task, those without a check last.
    pub fn next<'l>(&'l self, ledger: &'l Ledger) -> Option<&'l Task> {
        let next = match self {
            Self::Ledger => ledger.selection().next_of_run(None),
            Self::Tasks(chosen) => ledger.selection().next_among(chosen),
        };
        next.and_then(|id| ledger.task(id))
    }

    /// The phase whose gate the run has to try.
    pub fn due_gate<'l>(&self, ledger: &'l Ledger) -> Option<&'l Phase> {
        match self {
            Self::Ledger => ledger.selection().due_gate(),
            Self::Tasks(_) => None,
        }
    }

    /// A task of the run that is in progress.
    pub fn in_progress<'l>(&self, ledger: &'l Ledger) -> Option<&'l Task> {
        ledger.tasks().find(|task| task.status() == Status::InProgress && self.contains(&task.id))
    }

    /// How the claim of the task that [`next`](Self::next) returned names it.
    pub fn choice(&self, task: TaskId) -> ClaimChoice {
        match self {
            Self::Ledger => ClaimChoice::NextIs(task),
            Self::Tasks(_) => ClaimChoice::Ready(task),
        }
    }

    /// What the unfinished tasks among the chosen ones wait for, as a text for people. `None` if the run
    /// can finish without other tasks, or works on all of them.
    pub fn waiting(&self, ledger: &Ledger) -> Option<String> {
        let Self::Tasks(chosen) = self else { return None };
        let left = chosen.iter().filter_map(|id| ledger.task(id)).filter(|task| task.unfinished());
        let left: Vec<_> =
            left.map(|task| format!("{} {}", task.id, Standing::of(ledger, task))).collect();
        (!left.is_empty()).then(|| left.join("; "))
    }

    /// Whether tasks of the ledger are left when those of the run are done.
    pub fn leaves_work(&self, ledger: &Ledger) -> bool {
        match self {
            Self::Ledger => false,
            Self::Tasks(_) => ledger.tasks().any(Task::unfinished),
        }
    }
}
