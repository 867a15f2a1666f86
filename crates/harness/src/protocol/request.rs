//! The requests of a client.

mod wire;

use std::time::Duration;

use harness_core::{
    Category, Holder, RunId, TaskId, WorkerId,
    command::{Add, Authority, ConfigureSession, Edit, EditPhase, ImportMode},
    machine::judge::ClientWork,
    role::Operation,
    run::Budget,
};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use uuid::Uuid;

use super::{Refused, Verb, WorkerTransaction};

/// One request. On the wire, `command` is the name of its [`Verb`] and the other fields stand beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the verbs say what they are for")]
pub enum Request {
    Ping,
    GetState,
    Status {
        /// The number of events to return; ten by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        event_count: Option<u64>,
    },
    PlanImport(PlanText),
    PlanReset,
    TaskClaim(TaskClaim),
    PhaseEdit(#[serde(serialize_with = "wire::phase")] EditPhase),
    PhaseRemove {
        name: String,
    },
    SessionConfigure(#[serde(serialize_with = "wire::configure")] ConfigureSession),
    TaskAdd(#[serde(serialize_with = "wire::add")] Add),
    TaskEdit(#[serde(serialize_with = "wire::edit")] Edit),
    TaskRemove {
        task_id: TaskId,
    },
    TaskRetry(TaskReason),
    TaskRelease(TaskReason),
    TaskCheckpoint(TaskCheckpoint),
    TaskRenew(TaskRenew),
    TaskComplete(TaskComplete),
    TaskFail(TaskFail),
    Ask(Inquiry),
    Questions,
    Reply(QuestionReply),
    Send(SentMessage),
    Ack,
    Kick,
    Pause,
    Resume,
    Budget(BudgetRequest),
    Abort {
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Subscribe(Subscribe),
    May {
        /// A name of the table of operations.
        #[serde(skip_serializing_if = "Option::is_none")]
        operation: Option<String>,
    },
    WorkerTransaction(WorkerTransaction),
    Shutdown,
    Yield,
}

/// A plan to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanText {
    /// The text that contains the plan.
    pub content: String,
    /// The treatment of the existing tasks.
    pub mode: ImportMode,
}

impl Serialize for PlanText {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("content", &self.content)?;
        match self.mode {
            ImportMode::IfFinished => {}
            ImportMode::Replace => map.serialize_entry("replace", &true)?,
            ImportMode::Merge => map.serialize_entry("merge", &true)?,
            ImportMode::Update => {
                // A host that does not know updates merges, which adds the new tasks only.
                map.serialize_entry("merge", &true)?;
                map.serialize_entry("update", &true)?;
            }
        }
        map.end()
    }
}

/// A request of a worker for a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskClaim {
    /// The worker.
    pub worker_id: WorkerId,
    /// The role. Only tasks of this role and tasks without one are eligible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The labels of the worker. A task that requires others is not eligible.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The longest wait until a task is ready, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// How long the claim lasts if the task has no time limit, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u64>,
}

impl TaskClaim {
    /// Claims the next task of any role, without waiting for one.
    pub fn any(worker: WorkerId) -> Self {
        Self {
            worker_id: worker,
            role: None,
            labels: Vec::new(),
            wait_ms: None,
            lease_seconds: None,
        }
    }

    /// Claims only tasks of `role`, or tasks without a role.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// Claims tasks that require some of these labels too.
    #[must_use]
    pub fn labels(mut self, labels: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.labels = labels.into_iter().map(Into::into).collect();
        self
    }

    /// Lets the claim last this long, if the task has no time limit.
    #[must_use]
    pub fn lease(mut self, seconds: Option<u64>) -> Self {
        self.lease_seconds = seconds;
        self
    }

    /// Waits up to `time` until a task is ready.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self
    }
}

/// A task, and the reason for a change of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskReason {
    /// The task.
    pub task_id: TaskId,
    /// The reason, for the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A step of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskCheckpoint {
    /// The holder of the claim.
    #[serde(flatten, serialize_with = "wire::holder")]
    pub holder: Holder,
    /// The number of the step, from 1.
    pub step: u32,
    /// The number of steps.
    pub total: u32,
    /// A description of the step.
    pub description: String,
}

/// A task that its worker reports as done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskComplete {
    /// The holder of the claim.
    pub holder: Holder,
    /// The required relation of the worker to the claim.
    pub authority: Authority,
    /// Whether work that is in no commit is committed.
    pub work: ClientWork,
}

/// Renews the lease of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskRenew {
    /// The holder of the claim.
    #[serde(flatten, serialize_with = "wire::holder")]
    pub holder: Holder,
    /// How long the claim lasts from now on if the task has no time limit, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u64>,
}

impl Serialize for TaskComplete {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            #[serde(flatten, serialize_with = "wire::holder")]
            holder: &'a Holder,
            #[serde(skip_serializing_if = "Option::is_none")]
            force: Option<bool>,
            #[serde(skip_serializing_if = "Option::is_none")]
            commit: Option<bool>,
        }
        let force = match self.authority {
            Authority::Force => Some(true),
            Authority::Holder => None,
        };
        let commit = match self.work {
            ClientWork::Committed => Some(true),
            ClientWork::Left => None,
        };
        Wire { holder: &self.holder, force, commit }.serialize(s)
    }
}

/// An attempt that its worker gives up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskFail {
    /// The holder of the claim.
    #[serde(flatten, serialize_with = "wire::holder")]
    pub holder: Holder,
    /// The kind of failure.
    pub category: Category,
    /// The reason as text.
    pub message: String,
}

/// A question to the people behind a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inquiry {
    /// The question.
    pub question: String,
    /// The offered answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// `true` if other answers than the choices are accepted too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_text: bool,
    /// The time limit in seconds.
    #[serde(rename = "timeout", skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// The task whose agent asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuestionReply {
    /// The question.
    pub prompt_id: String,
    /// The answer.
    pub content: String,
    /// The choice, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
}

/// A message to a run, to one of its agents or to one execution of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SentMessage {
    /// The text.
    pub content: String,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// The budget of a run, to be shown or changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BudgetRequest {
    /// The run; the one that is in progress, or was last, if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The new limit in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// The new limit of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The new time limit in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<u64>,
}

impl BudgetRequest {
    /// Returns the change. It is empty if the budget is only shown.
    pub fn budget(&self) -> Budget {
        Budget {
            max_cost_usd: self.max_cost,
            max_tokens: self.max_tokens,
            max_duration_seconds: self.max_duration,
        }
    }

    /// Returns whether it can be about `run`.
    pub fn is_of(&self, run: &RunId) -> bool {
        self.run_id.as_ref().is_none_or(|id| id == run)
    }
}

/// The requested events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Subscribe {
    /// Types, or prefixes with a star; all types if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Vec<String>>,
    /// The last event that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Uuid>,
}

impl Request {
    /// Returns the verb.
    pub fn verb(&self) -> Verb {
        match self {
            Self::Ping => Verb::Ping,
            Self::GetState => Verb::GetState,
            Self::Status { .. } => Verb::Status,
            Self::PlanImport(_) => Verb::PlanImport,
            Self::PlanReset => Verb::PlanReset,
            Self::TaskClaim(_) => Verb::TaskClaim,
            Self::PhaseEdit(_) => Verb::PhaseEdit,
            Self::PhaseRemove { .. } => Verb::PhaseRemove,
            Self::SessionConfigure(_) => Verb::SessionConfigure,
            Self::TaskAdd(_) => Verb::TaskAdd,
            Self::TaskEdit(_) => Verb::TaskEdit,
            Self::TaskRemove { .. } => Verb::TaskRemove,
            Self::TaskRetry(_) => Verb::TaskRetry,
            Self::TaskRelease(_) => Verb::TaskRelease,
            Self::TaskCheckpoint(_) => Verb::TaskCheckpoint,
            Self::TaskRenew(_) => Verb::TaskRenew,
            Self::TaskComplete(_) => Verb::TaskComplete,
            Self::TaskFail(_) => Verb::TaskFail,
            Self::Ask(_) => Verb::Ask,
            Self::Questions => Verb::Questions,
            Self::Reply(_) => Verb::Reply,
            Self::Send(_) => Verb::Send,
            Self::Ack => Verb::Ack,
            Self::Kick => Verb::Kick,
            Self::Pause => Verb::Pause,
            Self::Resume => Verb::Resume,
            Self::Budget(_) => Verb::Budget,
            Self::WorkerTransaction(_) => Verb::WorkerTransaction,
            Self::Abort { .. } => Verb::Abort,
            Self::Subscribe(_) => Verb::Subscribe,
            Self::May { .. } => Verb::May,
            Self::Shutdown => Verb::Shutdown,
            Self::Yield => Verb::Yield,
        }
    }

    /// Returns whether the answer may take any time. A claim that does not wait is answered at
    /// once.
    pub fn waits(&self) -> bool {
        match self {
            Self::TaskClaim(claim) => claim.wait_ms.is_some(),
            other => other.verb().waits(),
        }
    }

    /// Returns whether a client that lost the answer may send it again.
    pub fn is_idempotent(&self) -> bool {
        self.verb().is_idempotent()
    }

    /// Returns whether a client starts a daemon if no host answers.
    pub fn starts_host(&self) -> bool {
        self.verb().starts_host()
    }

    /// Returns whether it would take the ledger or the host away from a run at work.
    pub(crate) fn ends_work(&self) -> bool {
        match self {
            Self::PlanReset | Self::Shutdown | Self::Yield => true,
            Self::PlanImport(plan) => match plan.mode {
                ImportMode::Replace | ImportMode::IfFinished => true,
                ImportMode::Merge | ImportMode::Update => false,
            },
            _ => false,
        }
    }

    /// Returns the operation that the caller's role must allow.
    pub fn operation(&self) -> Result<Operation, Refused> {
        use Operation as O;
        Ok(match self {
            Self::TaskComplete(of) => match of.authority {
                Authority::Force => O::ForceComplete,
                Authority::Holder => O::Complete,
            },
            Self::PlanImport(plan) => match plan.mode {
                ImportMode::Replace => O::ReplacePlan,
                ImportMode::Merge => O::MergePlan,
                ImportMode::Update => O::UpdatePlan,
                ImportMode::IfFinished => O::BeginPlan,
            },
            // To look at a budget needs no permission.
            Self::Budget(of) if of.budget().is_empty() => O::Look,
            Self::May { operation } => {
                let word = operation.as_ref().ok_or("operation is required")?;
                O::parse(word).ok_or_else(|| format!("operation: unknown {word:?}"))?
            }
            other => other.verb().operation(),
        })
    }

    /// Returns the claim that it is about, if only its holder may ask.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::TaskCheckpoint(of) => Some(&of.holder),
            Self::TaskRenew(of) => Some(&of.holder),
            Self::TaskComplete(of) => Some(&of.holder),
            Self::TaskFail(of) => Some(&of.holder),
            _ => None,
        }
    }
}
