//! A task: one entry of the ledger, as the decisions see it.
//!
//! How it looks on disk is the business of [`crate::format`]; nothing here is serialized.

mod state;

pub use state::{ActiveClaim, ErrorEntry, FailureCause, TaskCompletion, TaskFailure, TaskState};

use crate::{Category, CommitId, Epoch, Flag, TaskId, Timestamp, TreeId, WorkerId};

/// At most this many checkpoints and error entries are kept in a task; the log has all.
pub const KEPT_ENTRIES: usize = 20;
/// An `error_log` entry is cut to this many bytes.
pub const ENTRY_BYTES: usize = 2048;
/// How long a check may take if the task does not say.
pub const CHECK_TIMEOUT_SECONDS: u64 = 300;
/// How often a task is tried if it does not say.
pub const MAX_ATTEMPTS: u32 = 3;

/// An entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Unique in its ledger.
    pub id: TaskId,
    /// One line for people.
    pub title: String,
    /// Where it stands, and what belongs to that.
    pub state: TaskState,
    /// Which of several is chosen.
    pub priority: Priority,
    /// All of these have to be completed before this one can be claimed.
    pub depends_on: Vec<TaskId>,
    /// Those that ended, a success too.
    pub attempts: u32,
    /// With so many the task has failed for good.
    pub max_attempts: u32,
    /// The epoch of the last claim. It outlives the claim, so that a late holder can be told from the
    /// current one.
    pub epoch: Option<Epoch>,
    /// HEAD at the last claim, where a rollback goes. It outlives the claim too.
    pub started_at_commit: Option<CommitId>,
    /// How it is checked that the work is done.
    pub validation: Validation,
    /// `on_failure.cleanup`
    pub cleanup: Option<String>,
    /// Oldest first.
    pub error_log: Vec<ErrorEntry>,
    /// How far attempts came, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// For the agent; where that is a shell, the script.
    pub instructions: Option<String>,
    /// Labels that a worker must have to claim it. Claims do not look at them yet.
    pub requires: Vec<String>,
    /// Where it was imported from.
    pub source: Option<Box<TaskSource>>,
    /// Only workers of this role are given it, and those who name none.
    pub role: Option<String>,
    /// The name of one of the ledger's phases.
    pub phase: Option<String>,
    /// How long an attempt may take; for a client also its lease.
    pub timeout_seconds: Option<u64>,
    /// Position in an imported plan.
    pub order: Option<u64>,
    /// Flags of the current attempt, or of the last one. A claim clears them.
    pub flags: Vec<Flag>,
    /// Who added it, if that was an agent or a worker: the role, and the attempt where there is one.
    pub added_by: Option<String>,
}

impl Task {
    /// Pending, with the defaults of a ledger that says nothing.
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
            requires: Vec::new(),
            source: None,
            role: None,
            phase: None,
            timeout_seconds: None,
            order: None,
            flags: Vec::new(),
            added_by: None,
        }
    }

    /// The word of the ledger for its state.
    pub const fn status(&self) -> Status {
        self.state.status()
    }

    /// The claim, while it lasts.
    pub fn claim(&self) -> Option<&ActiveClaim> {
        match &self.state {
            TaskState::Claimed(claim) => Some(claim),
            TaskState::Pending | TaskState::Completed(_) | TaskState::Failed(_) => None,
        }
    }

    /// The claim, to be changed; see [`claim`](Task::claim).
    pub fn claim_mut(&mut self) -> Option<&mut ActiveClaim> {
        match &mut self.state {
            TaskState::Claimed(claim) => Some(claim),
            TaskState::Pending | TaskState::Completed(_) | TaskState::Failed(_) => None,
        }
    }

    /// The worker that holds the task, or that completed it.
    pub fn claimed_by(&self) -> Option<&WorkerId> {
        match &self.state {
            TaskState::Claimed(claim) => claim.by.as_ref(),
            TaskState::Completed(completion) => completion.by.as_ref(),
            TaskState::Pending | TaskState::Failed(_) => None,
        }
    }

    /// When that worker claimed it.
    pub fn claimed_at(&self) -> Option<Timestamp> {
        match &self.state {
            TaskState::Claimed(claim) => claim.at,
            TaskState::Completed(completion) => completion.claimed_at,
            TaskState::Pending | TaskState::Failed(_) => None,
        }
    }

    /// When the lease of a claimed task ends.
    pub fn lease_expires_at(&self) -> Option<Timestamp> {
        self.claim().and_then(|claim| claim.lease_expires_at)
    }

    /// What a claim is about to do to git.
    pub fn intent(&self) -> Option<&Intent> {
        self.claim().and_then(|claim| claim.intent.as_ref())
    }

    /// When a completed task was completed.
    pub fn completed_at(&self) -> Option<Timestamp> {
        match &self.state {
            TaskState::Completed(completion) => completion.at,
            TaskState::Pending | TaskState::Claimed(_) | TaskState::Failed(_) => None,
        }
    }

    /// When a failed task failed.
    pub fn failed_at(&self) -> Option<Timestamp> {
        self.failure().and_then(|failure| failure.at)
    }

    /// Why it has failed, while it has.
    pub fn failure(&self) -> Option<&TaskFailure> {
        match &self.state {
            TaskState::Failed(failure) => Some(failure),
            TaskState::Pending | TaskState::Claimed(_) | TaskState::Completed(_) => None,
        }
    }

    /// A failed task that will never be tried again.
    pub fn failed_for_good(&self) -> bool {
        let spent = self.attempts >= self.max_attempts;
        self.failure().is_some_and(|failure| spent || failure.cause.is_dependency())
    }

    /// A failed task that will be tried again.
    pub fn retryable(&self) -> bool {
        self.failure().is_some() && !self.failed_for_good()
    }

    /// Pending, claimed or to be tried again.
    pub fn unfinished(&self) -> bool {
        match &self.state {
            TaskState::Pending | TaskState::Claimed(_) => true,
            TaskState::Failed(_) => !self.failed_for_good(),
            TaskState::Completed(_) => false,
        }
    }

    /// The entry of the error log that tells of a dependency which keeps the task from being tried.
    pub fn dependency_entry(&self) -> Option<&ErrorEntry> {
        self.error_log.iter().find(|entry| entry.cause.is_dependency())
    }

    /// The check of this task, if it has one.
    pub fn check(&self) -> Option<&str> {
        self.validation.command.as_deref().filter(|c| !c.trim().is_empty())
    }

    /// Whether the claim was made by a session of ours, which also validates, commits and rolls
    /// back; a claim by a client leaves all that to the client.
    pub fn claimed_via(&self) -> Via {
        self.claim().and_then(|claim| claim.via).unwrap_or(Via::Run)
    }

    /// Whether another worker may take it from its holder.
    pub fn lease_ran_out(&self, now: Timestamp) -> bool {
        self.claim().is_some_and(|claim| claim.lease_expires_at.is_none_or(|end| end <= now))
    }

    /// Counts an attempt that ended, a success too. `attempts` passes the maximum only where that was
    /// lowered meanwhile, and never falls.
    pub(crate) fn count_attempt(&mut self) {
        let counted = self.attempts.saturating_add(1).min(self.max_attempts.max(1));
        self.attempts = self.attempts.max(counted);
    }

    /// Ends the claim, if there is one: the task has failed for the reason that `entry` tells.
    pub(crate) fn fail(&mut self, now: Timestamp, entry: ErrorEntry) {
        self.push_error(entry);
        self.state = TaskState::Failed(TaskFailure::of(Some(now), &self.error_log));
    }

    /// Takes out entries of the error log; what they say about a failure goes with them.
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
            // An entry of a dependency decides whether the task is tried again, so it outlives older
            // ones.
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

/// The state of a task as one word of the ledger. What follows from that is a
/// [`Standing`](crate::Standing).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Nobody has claimed it.
    Pending,
    /// Claimed.
    InProgress,
    /// Checked, or taken on somebody's word.
    Completed,
    /// The last attempt did; see [`Task::failed_for_good`].
    Failed,
}

impl Status {
    /// In the order of a task's life.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Completed, Self::Failed];

    /// As the ledger spells it.
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

/// P0 first; a priority that we do not know comes last but is kept as it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Before all others.
    P0,
    /// If nothing is said.
    P1,
    /// After the others.
    P2,
    /// As it was written.
    Unknown(String),
}

impl Priority {
    /// `None` for what is none of the three.
    pub fn known(text: &str) -> Option<Self> {
        match text {
            "P0" => Some(Self::P0),
            "P1" => Some(Self::P1),
            "P2" => Some(Self::P2),
            _ => None,
        }
    }

    /// As it was written.
    pub fn name(&self) -> &str {
        match self {
            Self::P0 => "P0",
            Self::P1 => "P1",
            Self::P2 => "P2",
            Self::Unknown(text) => text,
        }
    }

    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::P0 => 0,
            Self::P1 => 1,
            Self::P2 => 2,
            Self::Unknown(_) => 3,
        }
    }
}

/// The check that decides whether a task is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    /// A line for `sh -c`; see [`Task::check`].
    pub command: Option<String>,
    /// How long it may take.
    pub timeout_seconds: u64,
    /// Judge a clean checkout of the commit.
    pub clean: Option<bool>,
    /// Run it before the first attempt too.
    pub baseline: Option<bool>,
}

impl Default for Validation {
    fn default() -> Self {
        Self { command: None, timeout_seconds: CHECK_TIMEOUT_SECONDS, clean: None, baseline: None }
    }
}

/// Where a task was imported from, so that a second import finds it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSource {
    /// The format, such as `openspec`.
    pub kind: String,
    /// The file, where there is one.
    pub path: Option<String>,
    /// The name of the task in that source.
    pub key: String,
}

/// How far an attempt came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// From 1.
    pub step: u32,
    /// How many the worker expected.
    pub total: u32,
    /// What was done then.
    pub description: String,
    /// `None` in a ledger that was written by others.
    pub timestamp: Option<Timestamp>,
    /// The work tree as it stood, where it could be read.
    pub tree: Option<TreeId>,
}

/// Who made a claim: a session of `harness run`, or a client that does its own git work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// By a session of ours.
    Run,
    /// By a client, through the wire or a hook.
    Client,
}

impl Via {
    /// As the ledger spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Client => "client",
        }
    }
}

/// What a claimed task has set out to do to git: durable before git is touched, and then finished
/// or voided, never judged afresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// The work is to be undone, and the attempt to fail with this.
    Rollback {
        /// What it will fail with.
        category: Category,
        /// For the error log.
        message: String,
    },
    /// The commit of the work is to become part of a branch.
    Land {
        /// That branch.
        target: String,
        /// What it points to before.
        from: CommitId,
        /// What it is to point to.
        to: CommitId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task::new(TaskId::numbered(1), "one")
    }

    #[test]
    fn error_entries_are_bounded_and_cut_between_characters() {
        let mut t = task();
        let now = Timestamp::default();
        t.fail(now, ErrorEntry::blocked_by(TaskId::numbered(2)));
        for n in 0..40 {
            let message = format!("{n} {}", "é".repeat(2000));
            t.fail(now, ErrorEntry::new(Some(Category::TaskExec), message));
        }
        assert_eq!(t.error_log.len(), KEPT_ENTRIES);
        let texts: Vec<String> = t.error_log.iter().map(ToString::to_string).collect();
        assert!(texts.iter().all(|text| text.len() <= ENTRY_BYTES));
        let cause = FailureCause::Dependency(TaskId::numbered(2));
        assert_eq!(t.failure().unwrap().cause, cause, "a live dependency entry is never dropped");
        assert!(texts.last().unwrap().starts_with("[TASK_EXEC] 39 "));
    }

    #[test]
    fn attempts_never_pass_their_maximum() {
        let mut t = task();
        for _ in 0..9 {
            t.count_attempt();
        }
        assert_eq!(t.attempts, t.max_attempts);
    }
}
