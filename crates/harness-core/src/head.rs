//! The head of the ledger: everything in it that is not a task.

use serde::Serialize;

use crate::{CommitId, Epoch, TaskId, Timestamp};

/// The newest `version` of `harness-tasks.json` that we read and the one that we write.
pub const VERSION: u64 = 2;

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
    /// The log lines of the last change, and the size of the log when it was made. A writer
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
