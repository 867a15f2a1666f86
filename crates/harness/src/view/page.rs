//! The selection of tasks for a page that cannot show all of them.

use harness_core::{format::TaskGlance, task::Status};

/// The tasks on a page, in ledger order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPage<'a> {
    /// The tasks that are shown.
    pub tasks: Vec<&'a TaskGlance<'a>>,
    /// The number of tasks that are left out.
    pub left_out: usize,
}

impl<'a> TaskPage<'a> {
    /// Returns a page with all tasks.
    pub fn whole(tasks: &'a [TaskGlance<'a>]) -> Self {
        Self { tasks: tasks.iter().collect(), left_out: 0 }
    }

    /// Returns a page of at most `rows` lines, one of them for the tasks that are left out. Tasks
    /// in progress are never left out. Failed, pending and completed tasks follow in this order.
    pub fn of(tasks: &'a [TaskGlance<'a>], rows: usize) -> Self {
        if tasks.len() <= rows {
            return Self::whole(tasks);
        }
        let interest = |status: Status| match status {
            Status::InProgress => 0,
            Status::Failed => 1,
            Status::Pending => 2,
            Status::Completed => 3,
        };
        let at_work = tasks.iter().filter(|task| task.status == Status::InProgress).count();
        let kept = rows.saturating_sub(1).max(at_work);
        let mut positions: Vec<usize> = (0..tasks.len()).collect();
        positions.sort_by_key(|at| interest(tasks[*at].status));
        positions.truncate(kept);
        positions.sort_unstable();
        let left_out = tasks.len() - positions.len();
        Self { tasks: positions.into_iter().map(|at| &tasks[at]).collect(), left_out }
    }
}
