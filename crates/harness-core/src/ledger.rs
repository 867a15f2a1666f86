//! The ledger in memory: its head, its tasks in order, and the indexes that make choosing cheap.
//!
//! A ledger is changed in one way only: a [`Change`] made by [`decide`](crate::command::decide) is
//! put in with [`Ledger::put_in`]. The indexes follow each row.

use std::{collections::BTreeSet, sync::OnceLock};

use indexmap::IndexMap;
use serde::Serialize;

use crate::{
    CommitId, Epoch, TaskId, Timestamp, WorkerId,
    command::{Change, Row},
    select::Selection,
    task::Task,
};

/// The newest `version` of `harness-tasks.json` that we read and the one that we write.
pub const VERSION: u64 = 2;

/// More than one transaction can give away.
const EPOCHS_OF_A_TRANSACTION: u64 = 1000;

/// Everything of the ledger that is not a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// `None` in a ledger that was made by hand.
    pub created: Option<Timestamp>,
    /// The bounds that people set.
    pub session_config: SessionConfig,
    /// How many have begun; the N of the last `SESSION-N`.
    pub session_count: u64,
    /// When one last ended.
    pub last_session: Option<Timestamp>,
    /// The claim counter. It is kept when the tasks are replaced or reset.
    pub epoch: Epoch,
    /// Of the plan that was imported.
    pub goal: Option<String>,
    /// In the order in which they are worked.
    pub phases: Vec<Phase>,
    /// Features that a program must know before it may write this ledger; see
    /// [`unknown_needs`](Head::unknown_needs).
    pub needs: Vec<String>,
    /// Results that wait to become part of the target branch, in the order in which they do.
    pub landing: Vec<LandingEntry>,
    /// What a person has to look at. They are shown until they are acknowledged.
    pub alerts: Vec<Alert>,
    /// The log lines of the last change, and the size of the log when it was made. Whoever writes
    /// next appends those that the log lacks from there on.
    pub log_tail: Vec<String>,
    /// In bytes; 0 where `log_tail` is empty.
    pub log_at: u64,
}

impl Head {
    /// Of a ledger that was just made.
    pub fn new(created: Timestamp) -> Self {
        Self {
            created: Some(created),
            session_config: SessionConfig::default(),
            session_count: 0,
            last_session: None,
            epoch: Epoch::default(),
            goal: None,
            phases: Vec::new(),
            needs: Vec::new(),
            landing: Vec::new(),
            alerts: Vec::new(),
            log_tail: Vec::new(),
            log_at: 0,
        }
    }

    /// The features among [`needs`](Head::needs) that this version does not know. While there is one,
    /// the ledger may be read, but not written: a change could contradict what the feature means.
    pub fn unknown_needs(&self) -> impl Iterator<Item = &str> {
        let unknown = |feature: &&String| !KNOWN_FEATURES.contains(&feature.as_str());
        self.needs.iter().filter(unknown).map(String::as_str)
    }
}

/// The values of `needs` that this version knows: none so far.
const KNOWN_FEATURES: &[&str] = &[];

/// A result on its way to the target branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingEntry {
    /// The task whose result it is.
    pub task: TaskId,
    /// The claim that made the result.
    pub epoch: Epoch,
    /// The commit that the result was rebased onto.
    pub onto: Option<CommitId>,
    /// The rebased result, as announced to the entries behind it.
    pub commit: Option<CommitId>,
    /// Whether `commit` passed its check, once that is known.
    pub green: Option<bool>,
}

/// At most this many alerts are kept, the first ones. The log has all of them.
pub const KEPT_ALERTS: usize = 50;

/// Something that puts doubt on the ledger until a person has looked at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// When it was found.
    pub time: Timestamp,
    /// The task that it concerns; `None` for the whole ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// For people.
    pub message: String,
}

/// `session_config` in `harness-tasks.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// How many sessions at once.
    pub concurrency_mode: ConcurrencyMode,
    /// Zero or less: no limit.
    pub max_tasks_per_session: i64,
    /// Zero or less: no limit.
    pub max_sessions: i64,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            concurrency_mode: ConcurrencyMode::Exclusive,
            max_tasks_per_session: 20,
            max_sessions: 50,
        }
    }
}

/// How many sessions may work on the ledger at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConcurrencyMode {
    /// One, which holds the lock for its whole life.
    Exclusive,
    /// Several, which take the lock for each transaction.
    Concurrent,
}

impl ConcurrencyMode {
    /// As the ledger spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Concurrent => "concurrent",
        }
    }
}

/// A stage of the work; the tasks of a later one wait for the gates of the earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// As tasks name it.
    pub name: String,
    /// What has to pass when all of its tasks are completed.
    pub gate: Option<Gate>,
    /// Whether a person has to let it pass too.
    pub approve: bool,
    /// When it did.
    pub passed_at: Option<Timestamp>,
}

/// The check at the end of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// A line for `sh -c`.
    pub command: String,
    /// How long it may take, where the ledger says so.
    pub timeout_seconds: Option<u64>,
}

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

    /// Makes `change` true here.
    pub fn put_in(&mut self, change: &Change) {
        if let Some(head) = &change.head {
            if head.phases != self.head.phases {
                self.selection = OnceLock::new();
            }
            self.head = head.clone();
        }
        // Dropping keeps the order of the others, which costs a walk; dropping everything, as a
        // replaced plan does, must not cost a walk for each.
        let dropped = change.rows.iter().filter(|r| matches!(r, Row::Drop(_))).count();
        if dropped > 0 && dropped == self.tasks.len() {
            self.tasks.clear();
            self.selection = OnceLock::new();
        }
        for row in &change.rows {
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
