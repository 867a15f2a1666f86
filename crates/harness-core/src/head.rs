//! The head of the ledger: everything in it that is not a task.

use serde::{Deserialize, Serialize};

use crate::{CommitId, Epoch, TaskId, Timestamp, WorkerId};

/// The newest `version` of `harness-tasks.json` that we read, and the one that we write.
pub const VERSION: u64 = 2;

/// Everything of the ledger that is not a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The time of creation; `None` in a ledger that was written by hand.
    pub created: Option<Timestamp>,
    /// The limits that people set.
    pub session_config: SessionConfig,
    /// The number of sessions that have begun. It is the N of the last `SESSION-N`.
    pub session_count: u64,
    /// The number of claims of the current session, while several workers work.
    pub session_claims: u64,
    /// The end of the last session.
    pub last_session: Option<Timestamp>,
    /// The time since which nothing may be claimed; `None` if tasks may be claimed.
    pub paused_at: Option<Timestamp>,
    /// The claim counter. It is kept when the tasks are replaced or reset.
    pub epoch: Epoch,
    /// What a database may have forgotten. Results of forgotten claims may have landed. Until they were
    /// looked for, nothing is claimed and nothing lands; see [`Settle`](crate::command::Settle).
    pub unsettled: Option<Unsettled>,
    /// The goal of the imported plan.
    pub goal: Option<String>,
    /// The phases, in the order in which they are worked on.
    pub phases: Vec<Phase>,
    /// Features that a program must know before it may write this ledger; see
    /// [`unknown_needs`](Head::unknown_needs).
    pub needs: Vec<String>,
    /// Results that wait to become part of the target branch, in that order.
    pub landing: Vec<LandingEntry>,
    /// Problems that a person must look at. They are shown until they are acknowledged.
    pub alerts: Vec<Alert>,
    /// The log lines of the last change. The next writer appends those that the log lacks after
    /// `log_at`.
    pub log_tail: Vec<String>,
    /// The size of the log in bytes when that change was made; 0 if `log_tail` is empty.
    pub log_at: u64,
}

impl Head {
    /// Returns the head of a new ledger.
    pub fn new(created: Timestamp) -> Self {
        Self {
            created: Some(created),
            session_config: SessionConfig::default(),
            session_count: 0,
            session_claims: 0,
            last_session: None,
            paused_at: None,
            epoch: Epoch::default(),
            unsettled: None,
            goal: None,
            phases: Vec::new(),
            needs: Vec::new(),
            landing: Vec::new(),
            alerts: Vec::new(),
            log_tail: Vec::new(),
            log_at: 0,
        }
    }

    /// Returns the features among [`needs`](Head::needs) that this version does not know. While
    /// there is one, the ledger may be read but not written, because a change could contradict the
    /// feature.
    pub fn unknown_needs(&self) -> impl Iterator<Item = &str> {
        let unknown = |feature: &&String| !KNOWN_FEATURES.contains(&feature.as_str());
        self.needs.iter().filter(unknown).map(String::as_str)
    }
}

/// What a database may have forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsettled {
    /// The last epoch that was not forgotten.
    pub after: Epoch,
    /// The largest epoch that a forgotten claim may have had. It was never assigned before.
    pub until: Epoch,
}

impl Unsettled {
    /// Returns whether a forgotten claim may have had this epoch.
    pub fn contains(&self, epoch: Epoch) -> bool {
        self.after < epoch && epoch <= self.until
    }
}

/// The feature of a ledger on which several workers work and whose results land in a line. A program
/// that does not know it would complete tasks that have not landed.
pub(crate) const LANDING_FEATURE: &str = "landing";

/// The values of `needs` that this version knows.
const KNOWN_FEATURES: &[&str] = &[LANDING_FEATURE];

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
    /// The last sign of life of its worker.
    pub renewed_at: Option<Timestamp>,
}

/// At most this many alerts are kept, the first ones. The log has all of them.
pub const KEPT_ALERTS: usize = 50;

/// A problem that casts doubt on the ledger until a person has looked at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// The time at which it was found.
    pub time: Timestamp,
    /// The task that it concerns; `None` for the whole ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The text for people.
    pub message: String,
}

/// `session_config` in `harness-tasks.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// The number of sessions that may work at the same time.
    pub concurrency_mode: ConcurrencyMode,
    /// The limit of tasks; zero or less means no limit.
    pub max_tasks_per_session: i64,
    /// The limit of sessions; zero or less means no limit.
    pub max_sessions: i64,
    /// The branch on which results land, while a claim is open.
    pub target_branch: Option<String>,
    /// The remote whose branch the target is; `None` for a branch of this repository.
    pub target_remote: Option<String>,
    /// The branch on which results land in the place of the target, because the tree of the user must
    /// not be touched.
    pub landed_branch: Option<String>,
    /// The reason for which they land there.
    pub landed_why: Option<String>,
}

impl SessionConfig {
    /// Returns the branch on which results land now.
    pub fn landing_branch(&self) -> Option<&str> {
        self.landed_branch.as_deref().or(self.target_branch.as_deref())
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            concurrency_mode: ConcurrencyMode::Exclusive,
            max_tasks_per_session: 20,
            max_sessions: 50,
            target_branch: None,
            target_remote: None,
            landed_branch: None,
            landed_why: None,
        }
    }
}

/// The number of sessions that may work on the ledger at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConcurrencyMode {
    /// One session, which holds the lock for its whole life.
    Exclusive,
    /// Several sessions, which take the lock for each transaction.
    Concurrent,
}

impl ConcurrencyMode {
    /// Returns the name that the ledger uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Concurrent => "concurrent",
        }
    }
}

/// A stage of the work. The tasks of a later phase wait for the gates of the earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// The name by which tasks refer to the phase.
    pub name: String,
    /// The check that must pass when all tasks of the phase are completed.
    pub gate: Option<Gate>,
    /// `true` if a person must approve the phase too.
    pub approve: bool,
    /// The time at which the phase passed.
    pub passed_at: Option<Timestamp>,
    /// The worker that tries the gate, among several.
    pub held: Option<GateHold>,
}

/// A worker that tries the gate of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateHold {
    /// The worker.
    pub by: WorkerId,
    /// The time after which another worker may try it.
    pub until: Timestamp,
}

/// The time limit of a gate if the ledger sets none.
pub const GATE_TIMEOUT_SECONDS: u64 = 600;

/// The check at the end of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// A line for `sh -c`.
    pub command: String,
    /// The time limit, if the ledger sets one.
    pub timeout_seconds: Option<u64>,
}
