//! The answers of a host.

use std::path::PathBuf;

use harness_core::{
    Ledger, Reply, Run, Stats, TaskId, Timestamp, WorkerId,
    command::{Claimed, ImportedTasks},
    task::Status,
};
use serde::{Deserialize, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{Refused, TaskView, TransactionAnswer, Verb, task};

/// The `data` of an answer. Its form follows from the verb of the request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// The answer to `ping`.
    Pong(Pong),
    /// The answer to `get_state`; `None` if there is no ledger.
    State(Option<StateView>),
    /// The answer to `status`.
    Status(StatusView),
    /// The answer to `plan_import`.
    Imported(ImportedPlan),
    /// The answer to `plan_reset`.
    Reset(ResetPlan),
    /// The answer to `task_claim`; `None` if no task is ready.
    #[serde(serialize_with = "write_claimed")]
    Claimed(Option<Box<ClaimedTask>>),
    /// The answer to requests that change one task.
    Task {
        /// The task.
        task_id: TaskId,
    },
    /// The answer to `task_checkpoint` and `task_renew`.
    Lease(ExtendedLease),
    /// The answer to `task_complete`.
    Completed(CompletedTask),
    /// The answer to `task_fail`.
    Failed(FailedTask),
    /// The answer to `ask`.
    Answered(QuestionAnswer),
    /// The answer to `questions`.
    Questions(Vec<QuestionView>),
    /// The answer to `reply`.
    Replied {
        /// The question.
        prompt_id: String,
    },
    /// The answer to `kick`.
    Woken {
        /// The number of waits that were ended.
        #[serde(default)]
        woken: u64,
    },
    /// The answer to `budget`.
    Budget(BudgetView),
    /// The answer to `shutdown`.
    Shutdown {
        /// Always `true`.
        shutdown: bool,
    },
    /// The answer to `worker_transaction`.
    Transaction(Box<TransactionAnswer>),
    /// To `send`.
    Sent {
        /// The number of agents that can read it. An older host does not report it.
        #[serde(skip_serializing_if = "Option::is_none")]
        received: Option<u64>,
    },
    /// To `phase_edit`, `phase_remove`, `session_configure`, `ack`, `pause`, `resume`, `abort`, `may` and `yield`.
    Nothing {},
}

/// The host that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// Always `true`.
    pub running: bool,
    /// Its process id.
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
    /// The tasks in the order of the ledger. On the wire they are a map by id.
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
    /// `true` if there is a ledger.
    pub active: bool,
    /// The number of tasks of each kind.
    pub summary: StatusSummary,
    /// The tasks in the order of the ledger. On the wire they are a map by id.
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
    /// Returns the number of events in an answer, from the requested number.
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

/// The number of tasks of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StatusSummary {
    pub total: usize,
    pub completed: usize,
    pub running: usize,
    pub pending: usize,
    pub failed: usize,
    /// The pending tasks that wait for others.
    pub blocked: usize,
}

/// An imported plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedPlan {
    /// Its goal.
    pub goal: String,
    /// The number of added tasks.
    pub task_count: usize,
    /// The parts that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The path of the archive with the earlier tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<PathBuf>,
    /// What an update did, task by task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Box<ImportedTasks>>,
}

/// A ledger whose tasks were archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResetPlan {
    /// The message for people.
    pub message: String,
    /// The number of archived tasks.
    pub task_count: usize,
    /// The path of the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<PathBuf>,
}

impl ResetPlan {
    /// Returns the answer for this number of tasks.
    pub fn new(task_count: usize, archive: Option<PathBuf>) -> Self {
        Self { message: format!("Plan reset ({task_count} tasks)"), task_count, archive }
    }
}

/// A task that was given to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimedTask {
    /// The task after the claim.
    pub task: TaskView,
    /// `true` if the worker held it already.
    pub is_retry: bool,
    /// `true` if the lease of its last holder ran out.
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

/// The new end of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtendedLease {
    /// The task.
    pub task_id: TaskId,
    /// The end of the lease.
    pub lease_expires_at: Timestamp,
}

/// A task that its worker reported as done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedTask {
    /// The task.
    pub task_id: TaskId,
    /// `true` for a task of a run, whose check follows the end of the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requested: bool,
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTask {
    /// The task.
    pub task_id: TaskId,
    /// `true` if there will be another attempt.
    pub retryable: bool,
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswer {
    /// The question.
    pub prompt_id: String,
    /// The answer.
    pub content: String,
    /// The choice, if the answer is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
}

/// The budget of a run, and what the run has used of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetView {
    /// The run.
    pub run_id: String,
    /// The status of the run.
    pub status: String,
    /// The cost so far; `null` if no agent reported a price.
    pub cost_usd: Option<f64>,
    /// The limit in US dollars.
    pub max_cost_usd: Option<f64>,
    /// The tokens so far.
    pub tokens: u64,
    /// The limit of tokens.
    pub max_tokens: Option<u64>,
    /// The time limit, counted from the start or the last resume.
    pub max_duration_seconds: Option<u64>,
    /// The end of that time.
    pub deadline: Option<Timestamp>,
}

impl From<&Run> for BudgetView {
    fn from(run: &Run) -> Self {
        Self {
            run_id: run.id.to_string(),
            status: run.status.to_string(),
            cost_usd: run.usage.cost_usd,
            max_cost_usd: run.limits.max_cost_usd,
            tokens: run.usage.tokens(),
            max_tokens: run.limits.max_tokens,
            max_duration_seconds: run.limits.max_duration_seconds,
            deadline: run.deadline.filter(|_| !run.status.is_over()),
        }
    }
}

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionView {
    /// The id of the question, as `reply` names it.
    pub prompt_id: String,
    /// The question.
    pub question: String,
    /// The offered answers.
    pub choices: Vec<String>,
    /// `true` if other answers are accepted too.
    pub allow_text: bool,
    /// The phase that the answer lets pass or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The task whose agent asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The machine of the agent, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl QuestionView {
    /// Returns the question with its choices and its machine, for people.
    pub fn shown(&self) -> String {
        let choices = match self.choices.is_empty() {
            true => String::new(),
            false => format!(" [{}]", self.choices.join(", ")),
        };
        let host = self.host.as_ref().map(|host| format!(" (on {host})"));
        format!("{}: {}{choices}{}", self.prompt_id, self.question, host.unwrap_or_default())
    }
}

impl Answer {
    /// Returns the whole line, without its newline.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            status: &'static str,
            data: &'a Answer,
        }
        serde_json::to_string(&Line { status: "ok", data: self })
    }

    /// Parses the `data` of an answer to a request with this verb. Fields of a newer host are
    /// ignored.
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
            Verb::Budget => of(data).map(Self::Budget),
            Verb::WorkerTransaction => of(data).map(Self::Transaction),
            Verb::Shutdown => Some(Self::Shutdown { shutdown: true }),
            Verb::Send => {
                Some(Self::Sent { received: data.get("received").and_then(Value::as_u64) })
            }
            Verb::PhaseEdit
            | Verb::PhaseRemove
            | Verb::SessionConfigure
            | Verb::Ack
            | Verb::Pause
            | Verb::Resume
            | Verb::Abort
            | Verb::May
            | Verb::Yield => of::<Map<String, Value>>(data).map(|_| Self::Nothing {}),
            // Events follow, but no answer.
            Verb::Subscribe => None,
        }
    }
}

fn of<T: DeserializeOwned>(data: Value) -> Option<T> {
    serde_json::from_value(data).ok()
}

/// Converts the reply of the core into an answer.
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
