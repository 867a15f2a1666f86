//! Which tasks are shown where not all of them fit.

use harness_core::{format::TaskGlance, task::Status};

/// The tasks on a page, in ledger order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPage<'a> {
    /// The tasks that are shown.
    pub tasks: Vec<&'a TaskGlance<'a>>,
    /// How many are not.
    pub left_out: usize,
}

impl<'a> TaskPage<'a> {
    /// All tasks.
    pub fn whole(tasks: &'a [TaskGlance<'a>]) -> Self {
        Self { tasks: tasks.iter().collect(), left_out: 0 }
    }

    /// At most `rows` lines, one of them for what is left out. Tasks in progress are never left out,
    /// then come those that failed, that are pending, that are completed.
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
