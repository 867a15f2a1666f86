//! The numbers of a ledger.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
};

use crate::{
    TaskId,
    ledger::Ledger,
    task::{Status, Task},
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    pub total: usize,
    pub completed: usize,
    pub failed: usize,
    /// Includes the blocked ones.
    pub pending: usize,
    pub in_progress: usize,
    /// Pending tasks that depend, directly or not, on one that failed for good.
    pub blocked: usize,
    pub attempts_total: u64,
    pub checkpoints: usize,
}

impl Stats {
    pub fn of(ledger: &Ledger) -> Self {
        let mut stats = Self { total: ledger.len(), ..Self::default() };
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
        stats.blocked = blocked(ledger).len();
        stats
    }
}

/// The pending tasks that depend, directly or not, on one that failed for good. Computed, never
/// stored: it is a consequence and would go stale.
pub fn blocked(ledger: &Ledger) -> HashSet<&TaskId> {
    let dead = ledger.tasks().filter(|t| t.failed_for_good());
    let mut queue: VecDeque<&TaskId> = dead.map(|t| &t.id).collect();
    let mut reached: HashSet<&TaskId> = HashSet::new();
    while let Some(id) = queue.pop_front() {
        for dependent in ledger.selection().dependents(id) {
            let held_up = ledger.task(dependent).is_some_and(|t| t.status != Status::Completed);
            if held_up && reached.insert(dependent) {
                queue.push_back(dependent);
            }
        }
    }
    let pending =
        |id: &&TaskId| ledger.task(id).is_some_and(|t: &Task| t.status == Status::Pending);
    reached.into_iter().filter(pending).collect()
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
