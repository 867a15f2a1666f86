//! The numbers of a ledger.

use std::{collections::HashSet, fmt};

use crate::{TaskId, ledger::Ledger, task::Status};

/// How many tasks stand where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// All tasks.
    pub total: usize,
    /// Done.
    pub completed: usize,
    /// For good, or to be tried again.
    pub failed: usize,
    /// Includes the blocked ones.
    pub pending: usize,
    /// Claimed.
    pub in_progress: usize,
    /// Pending tasks that depend, directly or not, on one that failed for good.
    pub blocked: usize,
    /// Of all tasks together.
    pub attempts_total: u64,
    /// Those that are still kept; the log has all.
    pub checkpoints: usize,
}

impl Stats {
    /// Walks all tasks.
    pub fn of(ledger: &Ledger) -> Self {
        Self::with_blocked(ledger, &blocked(ledger))
    }

    /// The same where the [`blocked`] tasks are already known.
    pub fn with_blocked(ledger: &Ledger, blocked: &HashSet<&TaskId>) -> Self {
        let mut stats = Self { blocked: blocked.len(), ..Self::default() };
        for task in ledger.tasks() {
            stats.count(task.status(), task.attempts, task.checkpoints.len());
        }
        stats
    }

    /// One task more; whether it is blocked shows only when all are there.
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

/// The pending tasks that depend, directly or not, on one that failed for good. Computed, never
/// stored: it is a consequence and would go stale.
pub fn blocked(ledger: &Ledger) -> HashSet<&TaskId> {
    let tasks = ledger.by_id();
    let failed: Vec<usize> = (0..tasks.len()).filter(|at| tasks[*at].failed_for_good()).collect();
    if failed.is_empty() {
        return HashSet::new();
    }
    // By position, and not by the ledger's index of who can be worked on: this is asked by those
    // who only look, for whom building that costs more than the answer.
    let edges = tasks.values().enumerate().flat_map(|(at, task)| {
        let before = task.depends_on.iter().filter_map(|d| tasks.get_index_of(d));
        before.map(move |before| (before, at))
    });
    let reached = reached(failed, edges, tasks.len(), |at| tasks[at].status());
    reached.into_iter().map(|at| &tasks[at].id).collect()
}

/// The same by positions: which of `total` tasks are pending and depend on one that `failed`. An
/// edge leads from a task to one that depends on it.
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
