//! A task: one entry of the ledger, in the form that the decisions use.
//!
//! [`crate::format`] owns the form on disk. Nothing here is serialized.

mod label;
mod priority;
mod state;
mod title;

pub use label::{checked_labels, problem_of_label};
pub use priority::Priority;
pub use state::{
    ActiveClaim, ErrorEntry, FailureCause, RenewedLease, TaskCompletion, TaskFailure, TaskState,
};
pub(crate) use title::problem_of_title;

use serde::{Deserialize, Serialize};

use indexmap::IndexMap;

use crate::{Category, CommitId, Epoch, Flag, TaskId, Timestamp, TreeId, WorkerId};

/// The hash of task ids. They come from the user's own files, so it is fast and need not resist a
/// flood of chosen ids.
pub(crate) type TaskHash = foldhash::fast::RandomState;
/// Values by the ids of their tasks, in the order of the ledger.
pub(crate) type TaskMap<V> = IndexMap<TaskId, V, TaskHash>;

/// At most this many checkpoints and error entries are kept in a task. The log has all of them.
pub const KEPT_ENTRIES: usize = 20;
/// An `error_log` entry is cut to this many bytes.
pub const ENTRY_BYTES: usize = 2048;
/// The default time limit of a check.
pub const CHECK_TIMEOUT_SECONDS: u64 = 300;
/// The default limit of attempts.
pub const MAX_ATTEMPTS: u32 = 3;

/// An entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Unique in its ledger.
    pub id: TaskId,
    /// One line for people.
    pub title: String,
    /// The state, with the data that belongs to it.
    pub state: TaskState,
    /// The priority among several eligible tasks.
    pub priority: Priority,
    /// The tasks that must be completed before this one can be claimed.
    pub depends_on: Vec<TaskId>,
    /// The number of attempts that ended, including a successful one.
    pub attempts: u32,
    /// The number of attempts after which the task has failed for good.
    pub max_attempts: u32,
    /// The epoch of the last claim. It outlives the claim, so that a late holder can be
    /// distinguished from the current one.
    pub epoch: Option<Epoch>,
    /// HEAD at the last claim, the target of a rollback. It outlives the claim too.
    pub started_at_commit: Option<CommitId>,
    /// The check that decides whether the work is done.
    pub validation: Validation,
    /// `on_failure.cleanup`
    pub cleanup: Option<String>,
    /// The errors, oldest first.
    pub error_log: Vec<ErrorEntry>,
    /// The progress of attempts, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The instructions for the agent. For the shell agent, they are the script.
    pub instructions: Option<String>,
    /// Globs of the files that its attempts must not change, besides those of the configuration.
    pub protected: Vec<String>,
    /// Labels that a worker must have to claim it.
    pub requires: Vec<String>,
    /// The files in which its last result conflicted with what had landed meanwhile.
    pub conflicts: Vec<String>,
    /// The source that it was imported from.
    pub source: Option<Box<TaskSource>>,
    /// The role of the workers that may claim the task. A worker without a role may claim it too.
    pub role: Option<String>,
    /// The name of one of the ledger's phases.
    pub phase: Option<String>,
    /// The time limit of an attempt. For a client it is also the lease.
    pub timeout_seconds: Option<u64>,
    /// The position in an imported plan.
    pub order: Option<u64>,
    /// Flags of the current attempt, or of the last one. A claim clears them.
    pub flags: Vec<Flag>,
    /// The role and, if there is one, the attempt that added it. `None` if the operator did.
    pub added_by: Option<String>,
}

impl Task {
    /// Returns a pending task with the defaults of the ledger.
    pub fn new(id: TaskId, title: impl Into<String>) -> Self {
        Self {
            id,
            title: title.into(),
            state: TaskState::Pending,
            priority: Priority::P1,
            depends_on: Vec::new(),
            attempts: 0,
            max_attempts: MAX_ATTEMPTS,
            epoch: None,
            started_at_commit: None,
            validation: Validation::default(),
            cleanup: None,
            error_log: Vec::new(),
            checkpoints: Vec::new(),
            instructions: None,
            protected: Vec::new(),
            requires: Vec::new(),
            conflicts: Vec::new(),
            source: None,
            role: None,
            phase: None,
            timeout_seconds: None,
            order: None,
            flags: Vec::new(),
            added_by: None,
        }
    }

    /// Returns the word that the ledger uses for its state.
    pub const fn status(&self) -> Status {
        self.state.status()
    }

    /// Returns the claim, while it lasts.
    pub fn claim(&self) -> Option<&ActiveClaim> {
        match &self.state {
            TaskState::Claimed(claim) => Some(claim),
            TaskState::Pending | TaskState::Completed(_) | TaskState::Failed(_) => None,
        }
    }

    /// Returns the claim for changes; see [`claim`](Task::claim).
    pub fn claim_mut(&mut self) -> Option<&mut ActiveClaim> {
        match &mut self.state {
            TaskState::Claimed(claim) => Some(claim),
            TaskState::Pending | TaskState::Completed(_) | TaskState::Failed(_) => None,
        }
    }

    /// Returns the worker that holds the task, or that completed it.
    pub fn claimed_by(&self) -> Option<&WorkerId> {
        match &self.state {
            TaskState::Claimed(claim) => claim.by.as_ref(),
            TaskState::Completed(completion) => completion.by.as_ref(),
            TaskState::Pending | TaskState::Failed(_) => None,
        }
    }

    /// Returns the time at which that worker claimed it.
    pub fn claimed_at(&self) -> Option<Timestamp> {
        match &self.state {
            TaskState::Claimed(claim) => claim.at,
            TaskState::Completed(completion) => completion.claimed_at,
            TaskState::Pending | TaskState::Failed(_) => None,
        }
    }

    /// Returns the end of the lease of a claimed task.
    pub fn lease_expires_at(&self) -> Option<Timestamp> {
        self.claim().and_then(|claim| claim.lease_expires_at)
    }

    /// Returns the change to git that a claim is about to make.
    pub fn intent(&self) -> Option<&Intent> {
        self.claim().and_then(|claim| claim.intent.as_ref())
    }

    /// Returns the time at which a completed task was completed.
    pub fn completed_at(&self) -> Option<Timestamp> {
        match &self.state {
            TaskState::Completed(completion) => completion.at,
            TaskState::Pending | TaskState::Claimed(_) | TaskState::Failed(_) => None,
        }
    }

    /// Returns the time at which a failed task failed.
    pub fn failed_at(&self) -> Option<Timestamp> {
        self.failure().and_then(|failure| failure.at)
    }

    /// Returns the failure of a failed task.
    pub fn failure(&self) -> Option<&TaskFailure> {
        match &self.state {
            TaskState::Failed(failure) => Some(failure),
            TaskState::Pending | TaskState::Claimed(_) | TaskState::Completed(_) => None,
        }
    }

    /// Returns whether the task failed and will not be tried again.
    pub fn failed_for_good(&self) -> bool {
        let spent = self.attempts >= self.max_attempts;
        self.failure().is_some_and(|failure| spent || failure.cause.is_dependency())
    }

    /// Returns whether the task failed and will be tried again.
    pub fn retryable(&self) -> bool {
        self.failure().is_some() && !self.failed_for_good()
    }

    /// Returns whether the task is pending, claimed or to be tried again.
    pub fn unfinished(&self) -> bool {
        match &self.state {
            TaskState::Pending | TaskState::Claimed(_) => true,
            TaskState::Failed(_) => !self.failed_for_good(),
            TaskState::Completed(_) => false,
        }
    }

    /// Returns the error entry about a dependency that keeps the task from being tried.
    pub fn dependency_entry(&self) -> Option<&ErrorEntry> {
        self.error_log.iter().find(|entry| entry.cause.is_dependency())
    }

    /// Returns the check of this task, if it has one.
    pub fn check(&self) -> Option<&str> {
        self.validation.command.as_deref().filter(|c| !c.trim().is_empty())
    }

    /// Returns who made the claim. A session of ours also validates, commits and rolls back; a
    /// client does all of that itself.
    pub fn claimed_via(&self) -> Via {
        self.claim().and_then(|claim| claim.via).unwrap_or(Via::Run)
    }

    /// Returns whether another worker may take the task from its holder.
    pub fn lease_ran_out(&self, now: Timestamp) -> bool {
        self.claim().is_some_and(|claim| claim.lease_expires_at.is_none_or(|end| end <= now))
    }

    /// Counts an attempt that ended, including a successful one. `attempts` exceeds the maximum
    /// only if the maximum was lowered meanwhile. It never decreases.
    pub(crate) fn count_attempt(&mut self) {
        let counted = self.attempts.saturating_add(1).min(self.max_attempts.max(1));
        self.attempts = self.attempts.max(counted);
    }

    /// Ends the claim, if there is one, and marks the task as failed for the reason in `entry`.
    pub(crate) fn fail(&mut self, now: Timestamp, entry: ErrorEntry) {
        self.push_error(entry);
        self.state = TaskState::Failed(TaskFailure::of(Some(now), &self.error_log));
    }

    /// Removes entries of the error log. The failure is derived again from the entries that are
    /// left.
    pub(crate) fn retain_errors(&mut self, keep: impl FnMut(&ErrorEntry) -> bool) {
        self.error_log.retain(keep);
        if let TaskState::Failed(failure) = &mut self.state {
            *failure = TaskFailure::of(failure.at, &self.error_log);
        }
    }

    fn push_error(&mut self, mut entry: ErrorEntry) {
        entry.cut(ENTRY_BYTES);
        self.error_log.push(entry);
        while self.error_log.len() > KEPT_ENTRIES {
            // The entry of a dependency decides whether the task is tried again, so it is kept
            // longer than the others.
            let spare = |e: &ErrorEntry| !e.cause.is_dependency();
            let oldest = self.error_log.iter().position(spare).unwrap_or(0);
            self.error_log.remove(oldest);
        }
    }

    pub(crate) fn push_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.checkpoints.push(checkpoint);
        let surplus = self.checkpoints.len().saturating_sub(KEPT_ENTRIES);
        self.checkpoints.drain(..surplus);
    }
}

/// The state of a task as one word of the ledger. [`Standing`](crate::Standing) is derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Status {
    /// No worker has claimed it.
    Pending,
    /// A worker has claimed it.
    InProgress,
    /// The check passed, or the task was completed without a check.
    Completed,
    /// The last attempt failed; see [`Task::failed_for_good`].
    Failed,
}

impl Status {
    /// All states, in the order of a task's life.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Completed, Self::Failed];

    /// Returns the name that the ledger uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The check that decides whether a task is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    /// A line for `sh -c`; see [`Task::check`].
    pub command: Option<String>,
    /// The time limit in seconds.
    pub timeout_seconds: u64,
    /// `true` if the check runs in a clean checkout of the commit.
    pub clean: Option<bool>,
    /// `true` if the check also runs before the first attempt.
    pub baseline: Option<bool>,
}

impl Default for Validation {
    fn default() -> Self {
        Self { command: None, timeout_seconds: CHECK_TIMEOUT_SECONDS, clean: None, baseline: None }
    }
}

/// The source of an imported task, so that a second import recognizes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TaskSource {
    /// The format, such as `openspec`.
    pub kind: String,
    /// The file, if there is one.
    pub path: Option<String>,
    /// The name of the task in that source.
    pub key: String,
}

/// The progress of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The number of the step, from 1.
    pub step: u32,
    /// The number of steps that the worker expected.
    pub total: u32,
    /// A description of the finished step.
    pub description: String,
    /// The time; `None` in a ledger that another program wrote.
    pub timestamp: Option<Timestamp>,
    /// The work tree at that time, if it could be read.
    pub tree: Option<TreeId>,
}

/// The maker of a claim: a session of `harness run`, or a client that does its own git work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Via {
    /// A session of `harness run`.
    Run,
    /// A client, through the wire or a hook.
    Client,
}

impl Via {
    /// Returns the name that the ledger uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Client => "client",
        }
    }
}

/// The change to git that a claimed task is about to make. It is durable before git is touched.
/// After that it is finished or voided, and never decided again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Intent {
    /// The work is to be undone, and the attempt is to fail.
    Rollback {
        /// The category of the failure.
        category: Category,
        /// The message for the error log.
        message: String,
    },
    /// The commit of the work is to become part of a branch.
    Land {
        /// The name of that branch.
        target: String,
        /// The commit that the branch points to before.
        from: CommitId,
        /// The commit that the branch is to point to.
        to: CommitId,
    },
}

#[cfg(test)]
mod tests;
