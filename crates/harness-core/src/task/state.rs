//! Where a task stands, with what belongs to each state and to no other.

use super::{Intent, Status, Via};
use crate::{Category, TaskId, Timestamp, TreeId, WorkerId};

/// The state of a task. What outlives a claim (its epoch and its base) is in the
/// [`Task`](super::Task) itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// Nobody has claimed it.
    Pending,
    /// Somebody works on it, or did and is gone.
    Claimed(Box<ActiveClaim>),
    /// Checked, or taken on the word of its worker.
    Completed(TaskCompletion),
    /// The last attempt failed, or the task can never be worked on.
    Failed(TaskFailure),
}

impl TaskState {
    /// The word of the ledger for it.
    pub const fn status(&self) -> Status {
        match self {
            Self::Pending => Status::Pending,
            Self::Claimed(_) => Status::InProgress,
            Self::Completed(_) => Status::Completed,
            Self::Failed(_) => Status::Failed,
        }
    }
}

/// A claim that has not ended. All of it may be missing in a ledger that was written by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActiveClaim {
    /// The worker.
    pub by: Option<WorkerId>,
    /// When the worker took the task.
    pub at: Option<Timestamp>,
    /// Another worker may take the task after this; without it, at any time.
    pub lease_expires_at: Option<Timestamp>,
    /// See [`Task::claimed_via`](super::Task::claimed_via).
    pub via: Option<Via>,
    /// The work tree: its canonical top level.
    pub worktree: Option<String>,
    /// What HEAD named at the claim; `None` when detached.
    pub branch: Option<String>,
    /// The untracked files that were there before the claim.
    pub base_untracked: Option<TreeId>,
    /// What is about to be done to git; see [`Intent`].
    pub intent: Option<Intent>,
}

/// What is kept of the claim that completed a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskCompletion {
    /// The worker that completed it.
    pub by: Option<WorkerId>,
    /// When that worker claimed it.
    pub claimed_at: Option<Timestamp>,
    /// When it was completed.
    pub at: Option<Timestamp>,
}

/// Why a task has failed, as its error log tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFailure {
    /// When it failed.
    pub at: Option<Timestamp>,
    /// The category of the entry that decides; `None` where a person wrote no category.
    pub category: Option<Category>,
    /// What made it fail.
    pub cause: FailureCause,
}

impl TaskFailure {
    /// The failure that an error log tells of. A dependency outweighs everything else, also what was
    /// recorded later: as long as it is in the log, the task is not tried again.
    pub fn of(at: Option<Timestamp>, error_log: &[ErrorEntry]) -> Self {
        let dependency = error_log.iter().find(|entry| entry.cause.is_dependency());
        let entry = dependency.or(error_log.last());
        let cause = entry.map(|entry| entry.cause.clone()).unwrap_or_default();
        Self { at, category: entry.and_then(|entry| entry.category), cause }
    }
}

/// What makes a task fail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FailureCause {
    /// An attempt at it.
    #[default]
    Attempt,
    /// Its lease ran out.
    Lease,
    /// It depends on this task, which failed for good.
    Dependency(TaskId),
    /// It depends on itself, or on something that no entry names.
    Graph,
}

impl FailureCause {
    /// Whether no attempt at this task can help.
    pub const fn is_dependency(&self) -> bool {
        match self {
            Self::Attempt | Self::Lease => false,
            Self::Dependency(_) | Self::Graph => true,
        }
    }
}

const BLOCKED_BY: &str = "Blocked by failed ";
const LEASE_EXPIRED: &str = "Lease expired";

/// An entry of the error log of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorEntry {
    /// `None` where a person wrote no category.
    pub category: Option<Category>,
    /// For people and for the next attempt.
    pub message: String,
    /// Follows from the two.
    pub cause: FailureCause,
}

impl ErrorEntry {
    /// An entry that a worker, a session or a file reports. The messages that the other constructors
    /// make are recognised here, once, so that no decision has to look at a text.
    pub fn new(category: Option<Category>, message: impl Into<String>) -> Self {
        let message = message.into();
        let cause = match category {
            Some(Category::Dependency) => {
                let task = message.strip_prefix(BLOCKED_BY).and_then(|id| TaskId::parse(id).ok());
                task.map_or(FailureCause::Graph, FailureCause::Dependency)
            }
            Some(Category::SessionTimeout) if message.starts_with(LEASE_EXPIRED) => {
                FailureCause::Lease
            }
            Some(
                Category::EnvSetup
                | Category::Config
                | Category::TaskExec
                | Category::TestFail
                | Category::Timeout
                | Category::SessionTimeout,
            )
            | None => FailureCause::Attempt,
        };
        Self { category, message, cause }
    }

    /// The lease of `by` ran out.
    pub(crate) fn lease_expired(by: Option<&WorkerId>) -> Self {
        let by = by.map_or("nobody", WorkerId::as_str);
        let message = format!("{LEASE_EXPIRED} (claimed_by={by})");
        let category = Some(Category::SessionTimeout);
        Self { category, message, cause: FailureCause::Lease }
    }

    /// The task depends on `task`, which failed for good.
    pub(crate) fn blocked_by(task: TaskId) -> Self {
        let message = format!("{BLOCKED_BY}{task}");
        let category = Some(Category::Dependency);
        Self { category, message, cause: FailureCause::Dependency(task) }
    }

    /// The task depends on itself; `cycle` names the way.
    pub(crate) fn cyclic(cycle: &str) -> Self {
        let message = format!("Circular dependency detected: {cycle}");
        Self { category: Some(Category::Dependency), message, cause: FailureCause::Graph }
    }

    /// Cuts the message so that the text of the entry has at most `bytes`.
    pub(super) fn cut(&mut self, bytes: usize) {
        let text = self.to_string();
        if text.len() <= bytes {
            return;
        }
        let prefix = text.len() - self.message.len();
        let mut end = (bytes - '…'.len_utf8()).saturating_sub(prefix);
        while !self.message.is_char_boundary(end) {
            end -= 1;
        }
        self.message.truncate(end);
        self.message.push('…');
    }
}

/// As the ledger spells it.
impl std::fmt::Display for ErrorEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.category {
            Some(category) => write!(f, "[{category}] {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl serde::Serialize for ErrorEntry {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
