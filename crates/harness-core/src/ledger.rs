//! The ledger in memory: its head, its tasks in order, and the indexes that make selection cheap.
//!
//! There is only one way to change a ledger: [`Ledger::put_in`] applies the rows and the head of a
//! [`Change`](crate::Change). The indexes follow each row.

use std::{
    collections::{BTreeSet, HashSet},
    sync::OnceLock,
};

use crate::{
    Epoch, TaskId, WorkerId,
    select::Selection,
    task::{RenewedLease, Task, TaskHash, TaskMap},
};

pub use crate::head::{
    Alert, ConcurrencyMode, GATE_TIMEOUT_SECONDS, Gate, GateHold, Head, KEPT_ALERTS, LandingEntry,
    Phase, SessionConfig, Unsettled, VERSION,
};

/// An upper bound for the epochs that one transaction assigns.
pub(crate) const EPOCHS_OF_A_TRANSACTION: u64 = 1000;

/// The head and the tasks of a project. A clone copies all of it.
#[derive(Debug, Clone)]
pub struct Ledger {
    head: Head,
    tasks: TaskMap<Task>,
    /// Built on first use, so that a caller that only reads tasks does not pay for it.
    selection: OnceLock<Selection>,
    /// The largest epoch that any task carries; the counter in a hand-made head may lag behind it.
    highest_epoch: Epoch,
    /// This set is not stored. The caller sets it from what it observes on this machine.
    alive: BTreeSet<WorkerId>,
}

/// A change of one task.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// Adds the task, or replaces the one with the same id.
    Put(Box<Task>),
    /// Removes the task.
    Drop(TaskId),
}

impl Row {
    pub(crate) fn put(task: Task) -> Self {
        Self::Put(Box::new(task))
    }
}

/// Returns whether the rows drop each of these tasks, so that all of them can be removed first. A row may
/// drop a task that an earlier one added, and a task may be dropped twice.
pub(crate) fn drops_all<V>(rows: &[Row], tasks: &TaskMap<V>) -> bool {
    let dropped = rows.iter().filter_map(|row| match row {
        Row::Drop(id) => tasks.get_index_of(id),
        Row::Put(_) => None,
    });
    if tasks.is_empty() || rows.len() < tasks.len() {
        return false;
    }
    let dropped: HashSet<usize> = dropped.collect();
    dropped.len() == tasks.len()
}

/// The error for two tasks with the same id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("duplicate task id {0}")]
pub struct DuplicateTask(pub TaskId);

impl Ledger {
    /// Builds a ledger whose tasks have the order of `tasks`.
    pub fn new(head: Head, tasks: Vec<Task>) -> Result<Self, DuplicateTask> {
        let mut by_id = TaskMap::with_capacity_and_hasher(tasks.len(), TaskHash::default());
        for task in tasks {
            if let Some(earlier) = by_id.insert(task.id.clone(), task) {
                return Err(DuplicateTask(earlier.id));
            }
        }
        Ok(Self::of(head, by_id))
    }

    pub(crate) fn of(head: Head, tasks: TaskMap<Task>) -> Self {
        let highest_epoch = tasks.values().filter_map(|t| t.epoch).max().unwrap_or_default();
        let alive = BTreeSet::new();
        Self { head, tasks, selection: OnceLock::new(), highest_epoch, alive }
    }

    /// Sets the workers that are known to be at work. Their leases do not run out, whatever the
    /// clock says. The set is not stored, and it stays in force until it is set again.
    pub fn set_alive(&mut self, workers: BTreeSet<WorkerId>) {
        self.alive = workers;
    }

    pub(crate) fn is_alive(&self, worker: Option<&WorkerId>) -> bool {
        worker.is_some_and(|worker| self.alive.contains(worker))
    }

    /// Returns everything that is not a task.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the tasks in ledger order.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = &Task> + DoubleEndedIterator {
        self.tasks.values()
    }

    /// Returns the task with this id.
    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.tasks.get(id)
    }

    /// Returns whether a task has this id.
    pub fn contains(&self, id: &TaskId) -> bool {
        self.tasks.contains_key(id)
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(crate) fn by_id(&self) -> &TaskMap<Task> {
        &self.tasks
    }

    /// Returns the index that selects the next task and explains why others are not next.
    pub fn selection(&self) -> &Selection {
        self.selection.get_or_init(|| Selection::build(&self.head, &self.tasks))
    }

    /// Returns the largest `NNN` of the `task-NNN` ids.
    pub fn highest_number(&self) -> u64 {
        self.selection().highest_number(&self.tasks)
    }

    /// Returns the number for a new task. While results of forgotten tasks are looked for, it is larger
    /// than any that was ever assigned, as epochs are: the new task must not be taken for a forgotten one.
    pub fn next_number(&self) -> u64 {
        let forgotten = self.head.unsettled.map_or(0, |unsettled| unsettled.until.0);
        self.highest_number().max(forgotten) + 1
    }

    /// Returns the largest epoch that was ever assigned, as far as this ledger knows.
    pub fn epoch(&self) -> Epoch {
        self.head.epoch.max(self.highest_epoch)
    }

    /// Returns the epoch of the next claim.
    pub fn next_epoch(&self) -> Epoch {
        self.epoch().next()
    }

    /// Replaces the head and the changed rows.
    pub(crate) fn put_rows(&mut self, head: Option<&Head>, rows: &[Row]) {
        if let Some(head) = head {
            if head.phases != self.head.phases {
                self.selection = OnceLock::new();
            }
            self.head = head.clone();
        }
        // Dropping a row keeps the order of the others, which costs a walk over all of them. A
        // replaced plan drops every row, and must not cost one walk for each.
        if drops_all(rows, &self.tasks) {
            self.tasks.clear();
            self.selection = OnceLock::new();
        }
        for row in rows {
            match row {
                Row::Put(task) => self.put(task),
                Row::Drop(id) => self.drop(id),
            }
        }
    }

    /// Skips all epochs that a lost version of the ledger may have assigned. The lost version was
    /// at most one transaction ahead, and the number of epochs in a transaction is bounded.
    pub fn skip_epochs(&mut self) {
        self.head.epoch = Epoch(self.next_epoch().0 + EPOCHS_OF_A_TRANSACTION);
    }

    /// Records which lines the last change appends to the log, and at which size of the log.
    /// Without lines, the recorded size is 0.
    pub fn set_log_tail(&mut self, lines: Vec<String>, log_at: u64) {
        self.head.log_at = if lines.is_empty() { 0 } else { log_at };
        self.head.log_tail = lines;
    }

    /// Follows a renewal that is not part of the history of changes. Returns whether the claim is the
    /// current one.
    pub fn put_lease(&mut self, lease: &RenewedLease) -> bool {
        let Some(task) = self.tasks.get(&lease.task) else { return false };
        let (mut task, epoch) = (task.clone(), task.epoch);
        let Some(claim) = task.claim_mut().filter(|_| epoch == Some(lease.epoch)) else {
            return false;
        };
        claim.lease_expires_at = Some(lease.expires_at);
        self.put(&task);
        true
    }

    fn put(&mut self, task: &Task) {
        self.highest_epoch = self.highest_epoch.max(task.epoch.unwrap_or_default());
        let before = self.tasks.insert(task.id.clone(), task.clone());
        if let Some(selection) = self.selection.get_mut() {
            selection.row_changed(&self.tasks, before.as_ref(), Some(task));
        }
    }

    fn drop(&mut self, id: &TaskId) {
        if let Some(before) = self.tasks.shift_remove(id)
            && let Some(selection) = self.selection.get_mut()
        {
            selection.row_changed(&self.tasks, Some(&before), None);
        }
    }
}
