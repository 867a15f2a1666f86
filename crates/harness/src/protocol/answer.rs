//! What a host answers.

use std::path::PathBuf;

use harness_core::{
    Ledger, Reply, Stats, TaskId, Timestamp, WorkerId, command::Claimed, task::Status,
};
use serde::{Deserialize, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{Refused, TaskView, Verb, task};

/// The `data` of an answer. Its form follows from the verb of the request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To `ping`.
    Pong(Pong),
    /// To `get_state`; `None` where there is no ledger.
    State(Option<StateView>),
    /// To `status`.
    Status(StatusView),
    /// To `plan_import`.
    Imported(ImportedPlan),
    /// To `plan_reset`.
    Reset(ResetPlan),
    /// To `task_claim`; `None` where no task is ready.
    #[serde(serialize_with = "write_claimed")]
    Claimed(Option<Box<ClaimedTask>>),
    /// To what changes one task.
    Task {
        /// The task.
        task_id: TaskId,
    },
    /// To `task_checkpoint` and `task_renew`.
    Lease(ExtendedLease),
    /// To `task_complete`.
    Completed(CompletedTask),
    /// To `task_fail`.
    Failed(FailedTask),
    /// To `ask`.
    Answered(QuestionAnswer),
    /// To `questions`.
    Questions(Vec<QuestionView>),
    /// To `reply`.
    Replied {
        /// The question.
        prompt_id: String,
    },
    /// To `kick`.
    Woken {
        /// How many waits were ended.
        #[serde(default)]
        woken: u64,
    },
    /// To `shutdown`.
    Shutdown {
        /// Always `true`.
        shutdown: bool,
    },
    /// To `send`, `ack`, `abort`, `may` and `yield`.
    Nothing {},
}

/// The host that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// Always `true`.
    pub running: bool,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Its version of the protocol.
    pub protocol: u64,
}

/// A ledger as `get_state` returns it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateView {
    /// The goal of the plan.
    pub goal: Option<String>,
    /// The tasks, in the order of the ledger; on the wire, by id.
    #[serde(serialize_with = "task::write_by_id", deserialize_with = "task::read_by_id")]
    pub tasks: Vec<TaskView>,
}

impl From<&Ledger> for StateView {
    fn from(ledger: &Ledger) -> Self {
        Self { goal: ledger.head().goal.clone(), tasks: task::of_ledger(ledger) }
    }
}

/// A ledger as `status` returns it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    /// Whether there is a ledger.
    pub active: bool,
    /// How many tasks there are of each kind.
    pub summary: StatusSummary,
    /// The tasks, in the order of the ledger; on the wire, by id.
    #[serde(serialize_with = "task::write_by_id", deserialize_with = "task::read_by_id")]
    pub tasks: Vec<TaskView>,
    /// The last entries of the trajectory, oldest first.
    pub events: Vec<Value>,
    /// The workers that hold a task.
    pub active_workers: Vec<WorkerId>,
}

const EVENTS: u64 = 10;
const EVENTS_MAX: u64 = 1000;

impl StatusView {
    /// How many events an answer has, by what was asked for.
    pub(crate) fn events_wanted(event_count: Option<u64>) -> usize {
        usize::try_from(event_count.unwrap_or(EVENTS).min(EVENTS_MAX)).unwrap_or(0)
    }
}

impl From<&Ledger> for StatusView {
    fn from(ledger: &Ledger) -> Self {
        let stats = Stats::of(ledger);
        let mut workers: Vec<_> = ledger
            .tasks()
            .filter(|task| task.status() == Status::InProgress)
            .filter_map(|task| task.claimed_by().cloned())
            .collect();
        workers.sort();
        workers.dedup();
        Self {
            active: true,
            summary: StatusSummary {
                total: stats.total,
                completed: stats.completed,
                running: stats.in_progress,
                pending: stats.pending,
                failed: stats.failed,
                blocked: stats.blocked,
            },
            tasks: task::of_ledger(ledger),
            events: Vec::new(),
            active_workers: workers,
        }
    }
}

/// How many tasks there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StatusSummary {
    pub total: usize,
    pub completed: usize,
    pub running: usize,
    pub pending: usize,
    pub failed: usize,
    /// Of the pending ones: those that wait for others.
    pub blocked: usize,
}

/// A plan that was taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedPlan {
    /// Its goal.
    pub goal: String,
    /// How many tasks were added.
    pub task_count: usize,
    /// What was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Where the tasks are that were there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<PathBuf>,
}

/// A ledger whose tasks were archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResetPlan {
    /// The same for people.
    pub message: String,
    /// How many tasks there were.
    pub task_count: usize,
    /// Where they are now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<PathBuf>,
}

impl ResetPlan {
    /// Of so many tasks.
    pub fn new(task_count: usize, archive: Option<PathBuf>) -> Self {
        Self { message: format!("Plan reset ({task_count} tasks)"), task_count, archive }
    }
}

/// A task that was given to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimedTask {
    /// The task as it is now.
    pub task: TaskView,
    /// Whether the worker held it already.
    pub is_retry: bool,
    /// Whether the lease of its last holder ran out.
    pub is_reclaim: bool,
}

impl From<&Claimed> for ClaimedTask {
    fn from(claimed: &Claimed) -> Self {
        let Claimed { task, is_retry, is_reclaim, .. } = claimed;
        Self { task: task.into(), is_retry: *is_retry, is_reclaim: *is_reclaim }
    }
}

fn write_claimed<S: Serializer>(
    claimed: &Option<Box<ClaimedTask>>,
    s: S,
) -> Result<S::Ok, S::Error> {
    match claimed {
        Some(claimed) => claimed.serialize(s),
        None => json!({ "task": null }).serialize(s),
    }
}

/// How long a claim lasts now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtendedLease {
    /// The task.
    pub task_id: TaskId,
    /// When the claim runs out.
    pub lease_expires_at: Timestamp,
}

/// A task that its worker called done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedTask {
    /// The task.
    pub task_id: TaskId,
    /// It is a task of a run: the check follows the end of the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requested: bool,
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTask {
    /// The task.
    pub task_id: TaskId,
    /// Whether there will be another attempt.
    pub retryable: bool,
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswer {
    /// The question.
    pub prompt_id: String,
    /// The answer.
    pub content: String,
    /// The choice, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
}

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionView {
    /// The question, as `reply` names it.
    pub prompt_id: String,
    /// What is asked.
    pub question: String,
    /// The answers to choose from.
    pub choices: Vec<String>,
    /// Whether other answers are taken too.
    pub allow_text: bool,
    /// The phase that the answer lets pass or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

impl Answer {
    /// The whole line, without its newline.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            status: &'static str,
            data: &'a Answer,
        }
        serde_json::to_string(&Line { status: "ok", data: self })
    }

    /// Reads the `data` of an answer to a request with this verb. Fields of a newer host are ignored.
    pub fn read(verb: Verb, data: Value) -> Option<Self> {
        match verb {
            Verb::Ping => of(data).map(Self::Pong),
            Verb::GetState => of(data).map(Self::State),
            Verb::Status => of(data).map(Self::Status),
            Verb::PlanImport => of(data).map(Self::Imported),
            Verb::PlanReset => of(data).map(Self::Reset),
            Verb::TaskClaim if data.get("task").is_some_and(Value::is_null) => {
                Some(Self::Claimed(None))
            }
            Verb::TaskClaim => of(data).map(|claimed| Self::Claimed(Some(claimed))),
            Verb::TaskAdd
            | Verb::TaskEdit
            | Verb::TaskRemove
            | Verb::TaskRetry
            | Verb::TaskRelease => {
                let task_id = serde_json::from_value(data.get("task_id")?.clone()).ok()?;
                Some(Self::Task { task_id })
            }
            Verb::TaskCheckpoint | Verb::TaskRenew => of(data).map(Self::Lease),
            Verb::TaskComplete => of(data).map(Self::Completed),
            Verb::TaskFail => of(data).map(Self::Failed),
            Verb::Ask => of(data).map(Self::Answered),
            Verb::Questions => of(data).map(Self::Questions),
            Verb::Reply => {
                Some(Self::Replied { prompt_id: data.get("prompt_id")?.as_str()?.to_owned() })
            }
            Verb::Kick => {
                Some(Self::Woken { woken: data.get("woken").and_then(Value::as_u64).unwrap_or(0) })
            }
            Verb::Shutdown => Some(Self::Shutdown { shutdown: true }),
            Verb::Send | Verb::Ack | Verb::Abort | Verb::May | Verb::Yield => {
                of::<Map<String, Value>>(data).map(|_| Self::Nothing {})
            }
            // Events follow, and no answer.
            Verb::Subscribe => None,
        }
    }
}

fn of<T: DeserializeOwned>(data: Value) -> Option<T> {
    serde_json::from_value(data).ok()
}

/// The answer to a request that became a command of the core.
impl TryFrom<Reply> for Answer {
    type Error = Refused;

    fn try_from(reply: Reply) -> Result<Self, Refused> {
        Ok(match reply {
            Reply::Task(task_id) => Self::Task { task_id },
            Reply::Lease { task, expires_at } => {
                Self::Lease(ExtendedLease { task_id: task, lease_expires_at: expires_at })
            }
            Reply::Failed { task, retryable } => {
                Self::Failed(FailedTask { task_id: task, retryable })
            }
            Reply::Claimed(claimed) => Self::Claimed(Some(Box::new((&*claimed).into()))),
            Reply::NothingToClaim => Self::Claimed(None),
            Reply::Noted => Self::Nothing {},
            other => {
                let code = harness_core::command::Code::Failed;
                return Err(Refused::new(code, format!("unexpected answer: {other:?}")));
            }
        })
    }
}
