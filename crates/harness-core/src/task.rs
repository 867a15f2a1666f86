//! A task: one entry of the ledger, as the decisions see it.
//!
//! How it looks on disk is the business of [`crate::format`]; nothing here is serialized.

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
    /// Where it stands.
    pub status: Status,
    /// Which of several is chosen.
    pub priority: Priority,
    /// All of these have to be completed before this one can be claimed.
    pub depends_on: Vec<TaskId>,
    /// Those that ended, a success too.
    pub attempts: u32,
    /// With so many the task has failed for good.
    pub max_attempts: u32,
    /// HEAD at the claim: where a rollback goes.
    pub started_at_commit: Option<CommitId>,
    /// How it is checked that the work is done.
    pub validation: Validation,
    /// `on_failure.cleanup`
    pub cleanup: Option<String>,
    /// `[CATEGORY] message` each, oldest first.
    pub error_log: Vec<String>,
    /// How far attempts came, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Only when completed.
    pub completed_at: Option<Timestamp>,
    /// When it last failed.
    pub failed_at: Option<Timestamp>,

    /// These two stay after a completion and go with a failure.
    pub claimed_by: Option<WorkerId>,
    /// When that was.
    pub claimed_at: Option<Timestamp>,
    /// Only while claimed.
    pub lease_expires_at: Option<Timestamp>,
    /// The epoch of the last claim; it stays, so that a late holder can be told from the current.
    pub epoch: Option<Epoch>,
    /// Only while claimed, as are the next four; see [`claimed_via`](Task::claimed_via).
    pub via: Option<Via>,
    /// Where the work is done: canonical top level.
    pub worktree: Option<String>,
    /// What HEAD named at the claim.
    pub branch: Option<String>,
    /// The untracked files that were there before the claim.
    pub base_untracked: Option<TreeId>,
    /// What is about to be done to git; see [`Intent`].
    pub intent: Option<Intent>,

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
            status: Status::Pending,
            priority: Priority::P1,
            depends_on: Vec::new(),
            attempts: 0,
            max_attempts: MAX_ATTEMPTS,
            started_at_commit: None,
            validation: Validation::default(),
            cleanup: None,
            error_log: Vec::new(),
            checkpoints: Vec::new(),
            completed_at: None,
            failed_at: None,
            claimed_by: None,
            claimed_at: None,
            lease_expires_at: None,
            epoch: None,
            via: None,
            worktree: None,
            branch: None,
            base_untracked: None,
            intent: None,
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

    /// A failed task that will never be tried again.
    pub fn failed_for_good(&self) -> bool {
        self.status == Status::Failed
            && (self.attempts >= self.max_attempts || self.dependency_entry().is_some())
    }

    /// A failed task that will be tried again.
    pub fn retryable(&self) -> bool {
        self.status == Status::Failed && !self.failed_for_good()
    }

    /// Pending, claimed or to be tried again.
    pub fn unfinished(&self) -> bool {
        match self.status {
            Status::Pending | Status::InProgress => true,
            Status::Failed => !self.failed_for_good(),
            Status::Completed => false,
        }
    }

    /// The entry of the error log that says on which failed task this one depends, while it does.
    pub fn dependency_entry(&self) -> Option<&str> {
        self.error_log.iter().find(|e| is_dependency_entry(e)).map(String::as_str)
    }

    /// The check of this task, if it has one.
    pub fn check(&self) -> Option<&str> {
        self.validation.command.as_deref().filter(|c| !c.trim().is_empty())
    }

    /// Whether the claim was made by a session of ours, which also validates, commits and rolls
    /// back; a claim by a client leaves all that to the client.
    pub fn claimed_via(&self) -> Via {
        self.via.unwrap_or(Via::Run)
    }

    /// Whether another worker may take it from its holder.
    pub fn lease_ran_out(&self, now: Timestamp) -> bool {
        self.status == Status::InProgress && self.lease_expires_at.is_none_or(|end| end <= now)
    }

    /// Ends the claim. `attempts` counts every attempt that ended, a success too; it passes the
    /// maximum only where that was lowered meanwhile, and never falls.
    pub(crate) fn end_attempt(&mut self) {
        let counted = self.attempts.saturating_add(1).min(self.max_attempts.max(1));
        self.attempts = self.attempts.max(counted);
        self.end_claim();
    }

    /// What only a live claim has. Who held it, and its epoch, are left to the caller.
    pub(crate) fn end_claim(&mut self) {
        self.lease_expires_at = None;
        self.via = None;
        self.worktree = None;
        self.branch = None;
        self.base_untracked = None;
        self.intent = None;
    }

    pub(crate) fn forget_holder(&mut self) {
        self.claimed_by = None;
        self.claimed_at = None;
    }

    pub(crate) fn push_error(&mut self, category: Category, message: &str) {
        let mut entry = format!("[{category}] {message}");
        if entry.len() > ENTRY_BYTES {
            let mut end = ENTRY_BYTES - '…'.len_utf8();
            while !entry.is_char_boundary(end) {
                end -= 1;
            }
            entry.truncate(end);
            entry.push('…');
        }
        self.error_log.push(entry);
        while self.error_log.len() > KEPT_ENTRIES {
            // A live [DEPENDENCY] entry is a fact that decisions read, so it outlives older ones.
            let oldest = self.error_log.iter().position(|e| !is_dependency_entry(e)).unwrap_or(0);
            self.error_log.remove(oldest);
        }
    }

    pub(crate) fn push_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.checkpoints.push(checkpoint);
        let surplus = self.checkpoints.len().saturating_sub(KEPT_ENTRIES);
        self.checkpoints.drain(..surplus);
    }
}

pub(crate) fn is_dependency_entry(entry: &str) -> bool {
    entry.starts_with("[DEPENDENCY]")
}

/// Where a task stands, as the ledger has it. What follows from that is a
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
        t.push_error(Category::Dependency, "Blocked by failed x");
        for n in 0..40 {
            t.push_error(Category::TaskExec, &format!("{n} {}", "é".repeat(2000)));
        }
        assert_eq!(t.error_log.len(), KEPT_ENTRIES);
        assert!(t.error_log.iter().all(|e| e.len() <= ENTRY_BYTES));
        assert!(t.dependency_entry().is_some(), "a live dependency entry is never dropped");
        assert!(t.error_log.last().unwrap().starts_with("[TASK_EXEC] 39 "));
    }

    #[test]
    fn attempts_never_pass_their_maximum() {
        let mut t = task();
        for _ in 0..9 {
            t.end_attempt();
        }
        assert_eq!(t.attempts, t.max_attempts);
    }
}
