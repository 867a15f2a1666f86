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
        let mut stats = Self { total: ledger.len(), blocked: blocked.len(), ..Self::default() };
        for task in ledger.tasks() {
            match task.status {
                Status::Pending => stats.pending += 1,
                Status::InProgress => stats.in_progress += 1,
                Status::Completed => stats.completed += 1,
                Status::Failed => stats.failed += 1,
            }
            stats.attempts_total += u64::from(task.attempts);
            stats.checkpoints += task.checkpoints.len();
        }
        stats
    }
}

/// The pending tasks that depend, directly or not, on one that failed for good. Computed, never
/// stored: it is a consequence and would go stale.
pub fn blocked(ledger: &Ledger) -> HashSet<&TaskId> {
    let tasks = ledger.by_id();
    let mut stack: Vec<usize> =
        (0..tasks.len()).filter(|at| tasks[*at].failed_for_good()).collect();
    if stack.is_empty() {
        return HashSet::new();
    }
    // By position, and not by the ledger's index of who can be worked on: this is asked by those
    // who only look, for whom building that costs more than the answer.
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (at, task) in tasks.values().enumerate() {
        for before in task.depends_on.iter().filter_map(|d| tasks.get_index_of(d)) {
            dependents[before].push(at);
        }
    }
    let mut reached = HashSet::new();
    let mut seen = vec![false; tasks.len()];
    while let Some(at) = stack.pop() {
        for next in &dependents[at] {
            let task = &tasks[*next];
            if task.status != Status::Completed && !std::mem::replace(&mut seen[*next], true) {
                stack.push(*next);
                if task.status == Status::Pending {
                    reached.insert(&task.id);
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
