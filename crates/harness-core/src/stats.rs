//! The numbers of a ledger.

use serde::{Deserialize, Serialize};

use std::{collections::HashSet, fmt};

use crate::{TaskId, ledger::Ledger, task::Status};

/// The number of tasks in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// All tasks.
    pub total: usize,
    /// Completed tasks.
    pub completed: usize,
    /// Tasks that failed for good, or that will be tried again.
    pub failed: usize,
    /// Pending tasks, the blocked ones included.
    pub pending: usize,
    /// Claimed tasks.
    pub in_progress: usize,
    /// Pending tasks that depend, directly or not, on one that failed for good.
    pub blocked: usize,
    /// The attempts of all tasks together.
    pub attempts_total: u64,
    /// The checkpoints that are still kept. The log has all of them.
    pub checkpoints: usize,
}

impl Stats {
    /// Computes the numbers with a walk over all tasks.
    pub fn of(ledger: &Ledger) -> Self {
        Self::with_blocked(ledger, &blocked(ledger))
    }

    /// Does the same where the [`blocked`] tasks are already known.
    pub fn with_blocked(ledger: &Ledger, blocked: &HashSet<&TaskId>) -> Self {
        let mut stats = Self { blocked: blocked.len(), ..Self::default() };
        for task in ledger.tasks() {
            stats.count(task.status(), task.attempts, task.checkpoints.len());
        }
        stats
    }

    /// Counts one more task. Whether it is blocked is known only after all tasks are counted.
    pub(crate) fn count(&mut self, status: Status, attempts: u32, checkpoints: usize) {
        self.total += 1;
        match status {
            Status::Pending => self.pending += 1,
            Status::InProgress => self.in_progress += 1,
            Status::Completed => self.completed += 1,
            Status::Failed => self.failed += 1,
        }
        self.attempts_total += u64::from(attempts);
        self.checkpoints += checkpoints;
    }
}

/// Returns the pending tasks that depend, directly or not, on one that failed for good. The set is
/// computed and never stored, because it would go stale.
pub fn blocked(ledger: &Ledger) -> HashSet<&TaskId> {
    let tasks = ledger.by_id();
    let failed: Vec<usize> = (0..tasks.len()).filter(|at| tasks[*at].failed_for_good()).collect();
    if failed.is_empty() {
        return HashSet::new();
    }
    // This works by position and does not use the selection index. Its callers only read, and
    // building that index would cost them more than the answer.
    let edges = tasks.values().enumerate().flat_map(|(at, task)| {
        let before = task.depends_on.iter().filter_map(|d| tasks.get_index_of(d));
        before.map(move |before| (before, at))
    });
    let reached = reached(failed, edges, tasks.len(), |at| tasks[at].status());
    reached.into_iter().map(|at| &tasks[at].id).collect()
}

/// Does the same by positions: returns which of `total` tasks are pending and depend on one of
/// `failed`. An edge leads from a task to one that depends on it.
pub(crate) fn reached(
    failed: Vec<usize>,
    edges: impl Iterator<Item = (usize, usize)>,
    total: usize,
    status: impl Fn(usize) -> Status,
) -> Vec<usize> {
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); total];
    for (before, at) in edges {
        dependents[before].push(at);
    }
    let mut reached = Vec::new();
    let mut seen = vec![false; total];
    let mut stack = failed;
    while let Some(at) = stack.pop() {
        for next in &dependents[at] {
            let status = status(*next);
            if status != Status::Completed && !std::mem::replace(&mut seen[*next], true) {
                stack.push(*next);
                if status == Status::Pending {
                    reached.push(*next);
                }
            }
        }
    }
    reached
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tasks_total={} completed={} failed={} pending={} blocked={} attempts_total={} checkpoints={}",
            self.total,
            self.completed,
            self.failed,
            self.pending,
            self.blocked,
            self.attempts_total,
            self.checkpoints
        )
    }
}
