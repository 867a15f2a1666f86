//! The tasks that a run works on: all of the ledger, or some that a person chose.

use std::collections::BTreeSet;

use crate::{
    Ledger, Task, TaskId, command::ClaimChoice, ledger::Phase, line, select::Applicant,
    standing::Standing, task::Status,
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

    /// The next task for a worker, those without a check last.
    pub fn next<'l>(&'l self, ledger: &'l Ledger, of: Applicant<'_>) -> Option<&'l Task> {
        let next = match self {
            Self::Ledger => ledger.selection().next_of_run(of),
            Self::Tasks(chosen) => ledger.selection().next_among(chosen, of),
        };
        next.and_then(|id| ledger.task(id))
    }

    /// The next task for one of several workers: one that waits for the reservation of another is
    /// left out.
    pub fn next_free<'l>(&'l self, ledger: &'l Ledger, of: Applicant<'_>) -> Option<&'l Task> {
        let next = self.next(ledger, of)?;
        if line::waits_for_reservation(ledger, next).is_none() {
            return Some(next);
        }
        let queue = ledger.selection().queue(of).into_iter().filter_map(|id| ledger.task(id));
        let mut free = queue.filter(|task| {
            self.contains(&task.id) && line::waits_for_reservation(ledger, task).is_none()
        });
        free.find(|task| task.check().is_some())
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
    /// can finish without other tasks. Of a run over all tasks, it names those that require a label
    /// that the worker does not have.
    pub fn waiting(&self, ledger: &Ledger, of: Applicant<'_>) -> Option<String> {
        let Self::Tasks(chosen) = self else { return out_of_reach(ledger, of) };
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

/// The number of tasks that a text for people names.
const NAMED: usize = 5;

/// Names the tasks that only wait for a worker with other labels.
fn out_of_reach(ledger: &Ledger, of: Applicant<'_>) -> Option<String> {
    let ready = ledger.selection().queue(Applicant::ANYBODY);
    let ready = ready.into_iter().filter_map(|id| ledger.task(id));
    let mut beyond = ready.filter(|task| !task.requires.is_empty() && !of.suits(task));
    let named: Vec<String> = beyond
        .by_ref()
        .take(NAMED)
        .map(|task| format!("{} requires {}", task.id, task.requires.join(", ")))
        .collect();
    let more = match beyond.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!named.is_empty())
        .then(|| format!("no worker of this run has the labels: {}{more}", named.join("; ")))
}
