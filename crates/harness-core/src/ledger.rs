//! The ledger in memory: its head, its tasks in order, and the indexes that make choosing cheap.
//!
//! A ledger is changed in one way only: by the rows and the head of a [`Change`](crate::Change), which
//! is put in with [`Ledger::put_in`]. The indexes follow each row.

use std::{collections::BTreeSet, sync::OnceLock};

use indexmap::IndexMap;

use crate::{Epoch, TaskId, WorkerId, select::Selection, task::Task};

pub use crate::head::{
    Alert, ConcurrencyMode, Gate, Head, KEPT_ALERTS, LandingEntry, Phase, SessionConfig, VERSION,
};

/// More than one transaction can give away.
const EPOCHS_OF_A_TRANSACTION: u64 = 1000;

/// The head and the tasks. Cloning copies all of it.
#[derive(Debug, Clone)]
pub struct Ledger {
    head: Head,
    tasks: IndexMap<TaskId, Task>,
    /// Built when it is first asked for: who only looks at the tasks does not pay for it.
    selection: OnceLock<Selection>,
    /// The largest epoch that any task carries; the counter in a hand-made head may lag behind it.
    highest_epoch: Epoch,
    /// Not stored: the caller sets it from what it sees of the machine.
    alive: BTreeSet<WorkerId>,
}

/// One task that changes.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// New, or in the place of the one with its id.
    Put(Box<Task>),
    /// Taken out.
    Drop(TaskId),
}

impl Row {
    pub(crate) fn put(task: Task) -> Self {
        Self::Put(Box::new(task))
    }
}

/// Two tasks have the same id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("duplicate task id {0}")]
pub struct DuplicateTask(pub TaskId);

impl Ledger {
    /// In the order of `tasks`.
    pub fn new(head: Head, tasks: Vec<Task>) -> Result<Self, DuplicateTask> {
        let mut by_id = IndexMap::with_capacity(tasks.len());
        for task in tasks {
            if let Some(earlier) = by_id.insert(task.id.clone(), task) {
                return Err(DuplicateTask(earlier.id));
            }
        }
        Ok(Self::of(head, by_id))
    }

    pub(crate) fn of(head: Head, tasks: IndexMap<TaskId, Task>) -> Self {
        let highest_epoch = tasks.values().filter_map(|t| t.epoch).max().unwrap_or_default();
        let alive = BTreeSet::new();
        Self { head, tasks, selection: OnceLock::new(), highest_epoch, alive }
    }

    /// The workers that are known to be at work, whatever the clock says: their leases do not run out.
    /// It is not stored, and holds until it is set again.
    pub fn set_alive(&mut self, workers: BTreeSet<WorkerId>) {
        self.alive = workers;
    }

    pub(crate) fn is_alive(&self, worker: Option<&WorkerId>) -> bool {
        worker.is_some_and(|worker| self.alive.contains(worker))
    }

    /// All that is not a task.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// In ledger order.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = &Task> + DoubleEndedIterator {
        self.tasks.values()
    }

    /// By its id.
    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.tasks.get(id)
    }

    /// Whether there is a task of this id.
    pub fn contains(&self, id: &TaskId) -> bool {
        self.tasks.contains_key(id)
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(crate) fn by_id(&self) -> &IndexMap<TaskId, Task> {
        &self.tasks
    }

    /// Who is next, and why others are not.
    pub fn selection(&self) -> &Selection {
        self.selection.get_or_init(|| Selection::build(&self.head, &self.tasks))
    }

    /// The largest epoch that was ever given out, as far as this ledger knows.
    pub fn epoch(&self) -> Epoch {
        self.head.epoch.max(self.highest_epoch)
    }

    /// Of the claim that comes next.
    pub fn next_epoch(&self) -> Epoch {
        self.epoch().next()
    }

    /// Puts a new head and changed rows in the place of those that were there.
    pub(crate) fn put_rows(&mut self, head: Option<&Head>, rows: &[Row]) {
        if let Some(head) = head {
            if head.phases != self.head.phases {
                self.selection = OnceLock::new();
            }
            self.head = head.clone();
        }
        // Dropping keeps the order of the others, which costs a walk; dropping everything, as a
        // replaced plan does, must not cost a walk for each.
        let dropped = rows.iter().filter(|r| matches!(r, Row::Drop(_))).count();
        if dropped > 0 && dropped == self.tasks.len() {
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

    /// Leaves out all epochs that a version of the ledger which is lost may have given away. It had
    /// at most one transaction more than this one; what that holds is bounded.
    pub fn skip_epochs(&mut self) {
        self.head.epoch = Epoch(self.next_epoch().0 + EPOCHS_OF_A_TRANSACTION);
    }

    /// Notes which lines the last change appends to the log and where. No lines are nowhere.
    pub fn set_log_tail(&mut self, lines: Vec<String>, log_at: u64) {
        self.head.log_at = if lines.is_empty() { 0 } else { log_at };
        self.head.log_tail = lines;
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
