//! The state of a task, with the data that belongs to each state.

use super::{Intent, Status, Via};
use crate::{Category, Epoch, TaskId, Timestamp, TreeId, WorkerId};

/// The new end of the lease of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewedLease {
    /// The claimed task.
    pub task: TaskId,
    /// The epoch of the claim.
    pub epoch: Epoch,
    /// The end of the lease.
    pub expires_at: Timestamp,
}

/// The state of a task. The data that outlives a claim (its epoch and its base) is in the
/// [`Task`](super::Task) itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// No worker has claimed it.
    Pending,
    /// A worker holds it. That worker may be dead.
    Claimed(Box<ActiveClaim>),
    /// The check passed, or the task was completed without a check.
    Completed(TaskCompletion),
    /// The last attempt failed, or the task can never be worked on.
    Failed(TaskFailure),
}

impl TaskState {
    /// Returns the word that the ledger uses for this state.
    pub const fn status(&self) -> Status {
        match self {
            Self::Pending => Status::Pending,
            Self::Claimed(_) => Status::InProgress,
            Self::Completed(_) => Status::Completed,
            Self::Failed(_) => Status::Failed,
        }
    }
}

/// A claim that has not ended. Every field may be missing in a ledger that was written by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActiveClaim {
    /// The worker that holds the claim.
    pub by: Option<WorkerId>,
    /// The time of the claim.
    pub at: Option<Timestamp>,
    /// The end of the lease, after which another worker may take the task. Without it, another
    /// worker may take it at any time.
    pub lease_expires_at: Option<Timestamp>,
    /// See [`Task::claimed_via`](super::Task::claimed_via).
    pub via: Option<Via>,
    /// The canonical top level of the work tree.
    pub worktree: Option<String>,
    /// The branch that HEAD named at the claim; `None` if HEAD was detached.
    pub branch: Option<String>,
    /// The untracked files that existed before the claim.
    pub base_untracked: Option<TreeId>,
    /// The change to git that is about to be made; see [`Intent`].
    pub intent: Option<Intent>,
}

/// The data that is kept of the claim that completed a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskCompletion {
    /// The worker that completed it.
    pub by: Option<WorkerId>,
    /// The time at which that worker claimed it.
    pub claimed_at: Option<Timestamp>,
    /// The time of the completion.
    pub at: Option<Timestamp>,
}

/// The failure of a task, derived from its error log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFailure {
    /// The time of the failure.
    pub at: Option<Timestamp>,
    /// The category of the decisive entry; `None` if a person wrote an entry without category.
    pub category: Option<Category>,
    /// The cause of the failure.
    pub cause: FailureCause,
}

impl TaskFailure {
    /// Derives the failure from an error log. A dependency outweighs every other entry, including
    /// later ones, because the task is not tried again as long as the entry is in the log.
    pub fn of(at: Option<Timestamp>, error_log: &[ErrorEntry]) -> Self {
        let dependency = error_log.iter().find(|entry| entry.cause.is_dependency());
        let entry = dependency.or(error_log.last());
        let cause = entry.map(|entry| entry.cause.clone()).unwrap_or_default();
        Self { at, category: entry.and_then(|entry| entry.category), cause }
    }
}

/// The cause of a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FailureCause {
    /// An attempt failed.
    #[default]
    Attempt,
    /// The lease ran out.
    Lease,
    /// The task depends on this task, which failed for good.
    Dependency(TaskId),
    /// The task depends on itself, or on something that the entry does not name.
    Graph,
}

impl FailureCause {
    /// Returns whether no further attempt at this task can help.
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
    /// The category; `None` if a person wrote an entry without one.
    pub category: Option<Category>,
    /// The text for people and for the next attempt.
    pub message: String,
    /// The cause, derived from the other two fields.
    pub cause: FailureCause,
}

impl ErrorEntry {
    /// Returns an entry that a worker, a session or a file reports. It recognizes the messages of
    /// the other constructors, so that no decision has to parse a text.
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

    /// Returns the entry for a lease of `by` that ran out.
    pub(crate) fn lease_expired(by: Option<&WorkerId>) -> Self {
        let by = by.map_or("nobody", WorkerId::as_str);
        let message = format!("{LEASE_EXPIRED} (claimed_by={by})");
        let category = Some(Category::SessionTimeout);
        Self { category, message, cause: FailureCause::Lease }
    }

    /// Returns the entry for a task that depends on `task`, which failed for good.
    pub(crate) fn blocked_by(task: TaskId) -> Self {
        let message = format!("{BLOCKED_BY}{task}");
        let category = Some(Category::Dependency);
        Self { category, message, cause: FailureCause::Dependency(task) }
    }

    /// Returns the entry for a task that depends on itself. `cycle` is the path.
    pub(crate) fn cyclic(cycle: &str) -> Self {
        let message = format!("Circular dependency detected: {cycle}");
        Self { category: Some(Category::Dependency), message, cause: FailureCause::Graph }
    }

    /// Cuts the message so that the text of the entry has at most `bytes`.
    pub(crate) fn cut(&mut self, bytes: usize) {
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

/// Formats the entry as the ledger stores it.
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
