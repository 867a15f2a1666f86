//! The rules of [`Selection`](super::Selection) as walks over all tasks.

use super::{Applicant, passed};
use crate::{
    TaskId,
    head::Head,
    task::{Status, Task},
};

/// Applies the rule of [`next`](super::Selection::next) as one walk over all tasks.
pub fn naive<'a>(head: &Head, tasks: &'a [Task], of: Applicant<'_>) -> Option<&'a TaskId> {
    walk(head, tasks, of, |_| true)
}

/// Applies the rule of [`next_of_run`](super::Selection::next_of_run) as walks over all tasks.
pub fn naive_of_run<'a>(head: &Head, tasks: &'a [Task], of: Applicant<'_>) -> Option<&'a TaskId> {
    let with_check = walk(head, tasks, of, |task| task.check().is_some());
    with_check.or_else(|| naive(head, tasks, of))
}

fn walk<'a>(
    head: &Head,
    tasks: &'a [Task],
    of: Applicant<'_>,
    suits: impl Fn(&Task) -> bool,
) -> Option<&'a TaskId> {
    let find = |id: &TaskId| tasks.iter().find(|t| t.id == *id);
    let position = |name: &str| head.phases.iter().position(|p| p.name == name);
    let phase_done = |p: usize| {
        passed(&head.phases[p])
            && !tasks
                .iter()
                .any(|t| t.unfinished() && t.phase.as_deref().and_then(position) == Some(p))
    };
    let eligible = |t: &&Task| {
        suits(t)
            && t.depends_on.iter().all(|d| find(d).is_some_and(|d| d.status() == Status::Completed))
            && of.suits(t)
            && t.phase.as_deref().and_then(position).is_none_or(|p| (0..p).all(phase_done))
    };
    let position = |t: &Task| t.order.unwrap_or(u64::MAX);
    let pending = tasks.iter().filter(|t| t.status() == Status::Pending).filter(eligible);
    let first = pending.min_by_key(|t| (t.priority.rank(), position(t), t.id.clone()));
    let again = tasks.iter().filter(|t| t.retryable()).filter(eligible);
    let again = again.min_by_key(|t| (t.priority.rank(), t.failed_at(), position(t), t.id.clone()));
    first.or(again).map(|t| &t.id)
}
