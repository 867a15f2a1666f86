//! The rules of [`Selection`](super::Selection) as walks over all tasks.

use super::passed;
use crate::{
    TaskId,
    head::Head,
    task::{Status, Task},
};

/// Applies the rule of [`next`](super::Selection::next) as one walk over all tasks.
pub fn naive<'a>(head: &Head, tasks: &'a [Task], role: Option<&str>) -> Option<&'a TaskId> {
    walk(head, tasks, role, |_| true)
}

/// Applies the rule of [`next_of_run`](super::Selection::next_of_run) as walks over all tasks.
pub fn naive_of_run<'a>(head: &Head, tasks: &'a [Task], role: Option<&str>) -> Option<&'a TaskId> {
    let with_check = walk(head, tasks, role, |task| task.check().is_some());
    with_check.or_else(|| naive(head, tasks, role))
}

fn walk<'a>(
    head: &Head,
    tasks: &'a [Task],
    role: Option<&str>,
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
            && role.is_none_or(|r| t.role.as_deref().is_none_or(|of| of == r))
            && t.phase.as_deref().and_then(position).is_none_or(|p| (0..p).all(phase_done))
    };
    let position = |t: &Task| t.order.unwrap_or(u64::MAX);
    let pending = tasks.iter().filter(|t| t.status() == Status::Pending).filter(eligible);
    let first = pending.min_by_key(|t| (t.priority.rank(), position(t), t.id.clone()));
    let again = tasks.iter().filter(|t| t.retryable()).filter(eligible);
    let again = again.min_by_key(|t| (t.priority.rank(), t.failed_at(), position(t), t.id.clone()));
    first.or(again).map(|t| &t.id)
}
