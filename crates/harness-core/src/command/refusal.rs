//! The reasons for refusing a command.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Code;
use crate::{
    RunId, TaskId, Timestamp, WorkerId,
    role::{NotPermitted, Operation},
    task::Status,
};

/// The reason why a command changes nothing. The message of each variant explains it. Some of these
/// texts are part of the wire protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Refusal {
    #[error("Task {task} not found")]
    NotFound { task: TaskId },
    #[error("Task {task} is not claimed by {worker}")]
    NotClaimedBy { task: TaskId, worker: WorkerId },
    #[error("Task {task} is {status}, not claimed")]
    NotClaimed { task: TaskId, status: Status },
    #[error("Task {task} is {status}, not failed")]
    NotFailed { task: TaskId, status: Status },
    #[error("Task {task} is in progress (claimed by {worker})")]
    InProgress { task: TaskId, worker: WorkerId },
    #[error("Task {task} already exists")]
    Exists { task: TaskId },
    #[error("Unknown dependency: {dependency}")]
    UnknownDependency { dependency: TaskId },
    #[error("Missing dependency: {dependency} (in {task})")]
    MissingDependency { dependency: TaskId, task: TaskId },
    #[error("Task {task} cannot depend on {dependency}: that would close a cycle")]
    Cycle { task: TaskId, dependency: TaskId },
    #[error("Task {task} is needed by {}", by.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", "))]
    Needed { task: TaskId, by: Vec<TaskId> },
    #[error("Worker {worker} already holds {task}")]
    HoldsAnother { worker: WorkerId, task: TaskId },
    #[error("Task {task} is not the next one")]
    NotNext { task: TaskId },
    #[error("Task {task} cannot be worked on now")]
    NotReady { task: TaskId },
    #[error("claiming is paused since {since}")]
    Paused { since: Timestamp },
    #[error(
        "the database has forgotten changes; results that landed are looked for before work goes on"
    )]
    Unsettled,
    #[error("Task {task} has a check; it counts as completed only when the check passed")]
    Unchecked { task: TaskId },
    #[error("the check of task {task} was changed while it ran")]
    CheckChanged { task: TaskId },
    #[error("Task {task} has no validation.command and require_validation is set")]
    NoCheck { task: TaskId },
    #[error("Task {task} is being rolled back or landed; that has to be finished first")]
    Undecided { task: TaskId },
    #[error("Task {task} is not in the line of results that land")]
    NotInLine { task: TaskId },
    #[error("the gate of phase {phase} is tried by another worker, or has passed")]
    GateHeld { phase: String },
    #[error("the ledger has unfinished work ({unfinished} of {total} tasks)")]
    UnfinishedWork { unfinished: usize, total: usize },
    #[error("max_sessions reached ({max_sessions})")]
    MaxSessions { max_sessions: i64 },
    #[error("there is no run {run}")]
    RunNotFound { run: RunId },
    #[error("run {run} has succeeded; there is nothing to resume")]
    RunFinished { run: RunId },
    #[error("run {run} is driven by another process (pid={pid} on {host})")]
    RunTaken { run: RunId, host: String, pid: u32 },
    #[error(
        "{what} contains the value of {variable}, which must not be stored: write \"${variable}\" instead"
    )]
    Secret { what: Cow<'static, str>, variable: String },
    #[error("only the operator may {operation}")]
    OnlyOperator { operation: Operation },
    #[error("there is no phase {phase:?}")]
    NoSuchPhase { phase: String },
    #[error("phase {phase:?} has tasks: {}", named(tasks))]
    PhaseHasTasks { phase: String, tasks: Vec<TaskId> },
    #[error("the gate of phase {phase:?} was changed while it was tried")]
    GateChanged { phase: String },
    #[error("{0}")]
    BadValue(String),
    #[error("{0}")]
    BadPlan(String),
}

/// Returns a bounded list of tasks.
fn named(tasks: &[TaskId]) -> String {
    const NAMED: usize = 10;
    let named: Vec<&str> = tasks.iter().take(NAMED).map(TaskId::as_str).collect();
    match tasks.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} … ({more} more)", named.join(", ")),
    }
}

/// The kind of a refusal, by what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// Another caller was faster, or the request does not fit the state.
    Conflict,
    /// The request itself is wrong.
    Request,
    /// A person must fix the ledger.
    Config,
    /// A limit was reached.
    Limit,
}

impl From<NotPermitted> for Refusal {
    fn from(NotPermitted { operation }: NotPermitted) -> Self {
        Self::OnlyOperator { operation }
    }
}

impl Refusal {
    /// Returns whether the claim is gone: another worker or nobody holds the task, or it was
    /// removed.
    pub fn ends_a_claim(&self) -> bool {
        matches!(self, Self::NotClaimedBy { .. } | Self::NotFound { .. })
    }

    /// Returns the kind, which determines exit codes and the status on the wire.
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::NotClaimedBy { .. }
            | Self::NotClaimed { .. }
            | Self::NotFailed { .. }
            | Self::InProgress { .. }
            | Self::HoldsAnother { .. }
            | Self::NotNext { .. }
            | Self::NotReady { .. }
            | Self::Paused { .. }
            | Self::Unsettled
            | Self::CheckChanged { .. }
            | Self::GateChanged { .. }
            | Self::Undecided { .. }
            | Self::NotInLine { .. }
            | Self::GateHeld { .. }
            | Self::UnfinishedWork { .. }
            | Self::OnlyOperator { .. }
            | Self::RunFinished { .. }
            | Self::RunTaken { .. } => RefusalKind::Conflict,
            Self::NotFound { .. }
            | Self::Exists { .. }
            | Self::RunNotFound { .. }
            | Self::UnknownDependency { .. }
            | Self::Cycle { .. }
            | Self::Needed { .. }
            | Self::NoSuchPhase { .. }
            | Self::PhaseHasTasks { .. }
            | Self::Unchecked { .. }
            | Self::NoCheck { .. }
            | Self::Secret { .. }
            | Self::BadValue(_)
            | Self::BadPlan(_) => RefusalKind::Request,
            Self::MissingDependency { .. } => RefusalKind::Config,
            Self::MaxSessions { .. } => RefusalKind::Limit,
        }
    }

    /// Returns the code for the wire.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } | Self::RunNotFound { .. } | Self::NoSuchPhase { .. } => {
                Code::NotFound
            }
            Self::NotClaimedBy { .. } => Code::NotClaimedBy,
            Self::NotClaimed { .. } => Code::NotClaimed,
            Self::NotFailed { .. } => Code::NotFailed,
            Self::InProgress { .. } => Code::InProgress,
            Self::Exists { .. } => Code::Exists,
            Self::UnknownDependency { .. } => Code::UnknownDependency,
            Self::MissingDependency { .. } => Code::MissingDependency,
            Self::Cycle { .. } => Code::Cycle,
            Self::Needed { .. } | Self::PhaseHasTasks { .. } => Code::Needed,
            Self::HoldsAnother { .. } => Code::HoldsAnother,
            Self::NotNext { .. } | Self::NotReady { .. } | Self::Unsettled => Code::NotNext,
            Self::Paused { .. } => Code::Paused,
            Self::Unchecked { .. } => Code::Unchecked,
            Self::CheckChanged { .. } | Self::GateChanged { .. } => Code::CheckChanged,
            Self::NoCheck { .. } => Code::NoCheck,
            Self::Undecided { .. } | Self::NotInLine { .. } => Code::Undecided,
            Self::GateHeld { .. } => Code::NotNext,
            Self::UnfinishedWork { .. } => Code::UnfinishedWork,
            Self::MaxSessions { .. } => Code::Limit,
            Self::RunFinished { .. } => Code::RunFinished,
            Self::RunTaken { .. } => Code::RunTaken,
            Self::OnlyOperator { .. } => Code::OnlyOperator,
            Self::BadValue(_) | Self::Secret { .. } => Code::BadRequest,
            Self::BadPlan(_) => Code::BadPlan,
        }
    }
}
