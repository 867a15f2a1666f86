//! The events of a run, as listeners and other programs see them.
//!
//! The names on the wire are fixed: `type` and camel-case fields. A field without a value is
//! absent, never null. An event of an unknown type passes through unchanged.

mod context;
#[cfg(test)]
mod documented;
mod fact;
mod id;

use std::sync::Arc;

use harness_core::{Epoch, RunId, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

pub use context::{AgentContext, Context, PhaseContext, Scope, TaskContext};
pub use fact::LedgerEvent;
pub use id::{ExecutionId, Moment, PromptId};

/// An event with its id, time and place. Listeners receive it, and it is what is written to files.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Envelope {
    /// The id, a UUID of version 7, which sorts by time to the millisecond.
    pub id: Uuid,
    /// The time at which it was emitted. Within one hub it is never earlier than that of the event
    /// before.
    pub timestamp: Moment,
    /// The place in the run.
    pub context: Arc<Context>,
    /// The event itself.
    pub event: Event,
}

/// An event of a run.
///
/// The start and the end of a phase, a task or an agent are emitted outside of the scope that they
/// open: `task:start` has the context of the phase and no task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Event {
    /// `harness:start`: the first event of a run.
    #[serde(rename = "harness:start")]
    HarnessStart {
        /// The name that the harness was defined under.
        name: String,
    },
    /// `harness:complete`: the flow ended, with success or not. Cleanups come after it.
    #[serde(rename = "harness:complete")]
    HarnessComplete {
        /// `true` if the flow returned `Ok`.
        success: bool,
        /// The time since `harness:start`, in milliseconds.
        duration_ms: u64,
    },
    /// `phase:start`
    #[serde(rename = "phase:start")]
    PhaseStart {
        /// The phase's name.
        name: String,
        /// Its number, if the flow gave one.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase_number: Option<u32>,
    },
    /// `phase:complete`: its body returned `Ok`.
    #[serde(rename = "phase:complete")]
    PhaseComplete {
        /// The phase's name.
        name: String,
        /// Its number, if the flow gave one.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase_number: Option<u32>,
    },
    /// `phase:failed`: its body returned an error, which is passed on to the caller.
    #[serde(rename = "phase:failed")]
    PhaseFailed {
        /// The phase's name.
        name: String,
        /// The error as text.
        error: String,
        /// The stack, for programs in languages that have one. This library never sets it.
        #[serde(skip_serializing_if = "Option::is_none")]
        stack: Option<String>,
    },
    /// `task:start`
    #[serde(rename = "task:start")]
    TaskStart {
        /// The id that was passed to [`Cx::task`](crate::Cx::task).
        task_id: String,
        /// The epoch of the claim, for a task of the ledger.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
    },
    /// `task:complete`: its body returned `Ok`.
    #[serde(rename = "task:complete")]
    TaskComplete {
        /// The same id as in `task:start`.
        task_id: String,
        /// The result of the body as JSON. It is absent if there is none, or if it is not JSON.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    /// `task:failed`: its body returned an error, which is passed on to the caller.
    #[serde(rename = "task:failed")]
    TaskFailed {
        /// The same id as in `task:start`.
        task_id: String,
        /// The error as text.
        error: String,
        /// The stack, for programs in languages that have one. This library never sets it.
        #[serde(skip_serializing_if = "Option::is_none")]
        stack: Option<String>,
    },
    /// `task:checkpoint`: an attempt reports its progress.
    #[serde(rename = "task:checkpoint")]
    TaskCheckpoint {
        /// The id in the ledger.
        task_id: TaskId,
        /// The finished step.
        step: u32,
        /// The number of steps.
        total: u32,
        /// A description of the step.
        description: String,
    },
    /// `run:iteration`: the next context of a run begins.
    #[serde(rename = "run:iteration")]
    RunIteration {
        /// The row of the run: that of the whole run, or of the attempt at a task.
        row_id: RunId,
        /// The task, if the run is an attempt at one.
        #[serde(skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        /// The epoch of its claim.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
        /// The number of the context; the first is 0.
        iteration: u32,
        /// The number of the last context that may begin.
        max_iterations: u32,
    },
    /// `run:waiting`: the run waits for the end of a usage limit.
    #[serde(rename = "run:waiting")]
    RunWaiting {
        /// The same row as in `run:iteration`.
        row_id: RunId,
        /// The same task as in `run:iteration`.
        #[serde(skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        /// The time at which the run continues.
        until: Timestamp,
    },
    /// `run:check`: a check has ended.
    #[serde(rename = "run:check")]
    RunCheck {
        /// The task that it judges; absent for the check of an objective.
        #[serde(skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        /// `passed`, `failed`, `timed_out`, `cancelled`, or `missing` if it could not be run.
        verdict: String,
        /// The time that it took, in milliseconds.
        duration_ms: u64,
    },
    /// `run:gate`: the gate of a phase was tried.
    #[serde(rename = "run:gate")]
    RunGate {
        /// The name of the phase.
        phase: String,
        /// `passed`, `closed` or `interrupted`.
        outcome: String,
        /// The time that it took, in milliseconds, with the wait for an approval.
        duration_ms: u64,
    },
    /// `run:budget`: a person changed the budget of the run.
    #[serde(rename = "run:budget")]
    RunBudget {
        /// The row of the run.
        row_id: RunId,
        /// The limit in US dollars.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_cost_usd: Option<f64>,
        /// The limit of tokens.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_tokens: Option<u64>,
        /// The end of the time limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        deadline: Option<Timestamp>,
    },
    /// `agent:start`: an execution begins. Its inbox is already open.
    #[serde(rename = "agent:start")]
    AgentStart {
        /// The name that was passed to [`named`](crate::named).
        agent_name: String,
        /// The id of the execution, for [`Hub::send_to_run`](crate::Hub::send_to_run).
        run_id: ExecutionId,
    },
    /// `agent:complete`: the execution is over, with a result or an error. There is exactly one for each
    /// execution that was not dropped.
    #[serde(rename = "agent:complete")]
    AgentComplete {
        /// The same name as in `agent:start`.
        agent_name: String,
        /// Always `true` from this library, because a failure is reported as `agent:failed`.
        success: bool,
        /// The same id as in `agent:start`.
        run_id: ExecutionId,
    },
    /// `agent:failed`: the agent returned an error. Follows the `agent:complete` of the same execution.
    #[serde(rename = "agent:failed")]
    AgentFailed {
        /// The same name as in `agent:start`.
        agent_name: String,
        /// The same id as in `agent:start`.
        run_id: ExecutionId,
        /// The error as text.
        error: String,
    },
    /// `agent:text`: a piece of the agent's text, not necessarily a whole line.
    #[serde(rename = "agent:text")]
    AgentText {
        /// The text.
        content: String,
        /// The execution that wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    /// `agent:thinking`: a piece of the agent's reasoning.
    #[serde(rename = "agent:thinking")]
    AgentThinking {
        /// The text.
        content: String,
        /// The execution that wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    /// `agent:tool:start`: a tool call started.
    #[serde(rename = "agent:tool:start")]
    AgentToolStart {
        /// The agent's own name for the tool.
        tool_name: String,
        /// The arguments of the call.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        /// The execution that uses it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    /// `agent:tool:complete`: a tool call returned, with success or not.
    #[serde(rename = "agent:tool:complete")]
    AgentToolComplete {
        /// The same name as in `agent:tool:start`.
        tool_name: String,
        /// The result of the call.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        /// `true` for a failure; absent otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        /// The execution that used it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    /// `agent:usage`: the usage since the last report, or the fill level of the context.
    #[serde(rename = "agent:usage")]
    AgentUsage {
        /// The execution that used it.
        run_id: ExecutionId,
        /// The additional input tokens, including cached ones. It is not a total.
        input_tokens: u64,
        /// The additional output tokens. It is not a total.
        output_tokens: u64,
        /// The additional cost in US dollars, if the agent reports it.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The number of tokens in the context now.
        #[serde(skip_serializing_if = "Option::is_none")]
        context_tokens: Option<u64>,
        /// The size of the context window.
        #[serde(skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    },
    /// `session:prompt`: the run asks and waits for [`Hub::reply`](crate::Hub::reply).
    #[serde(rename = "session:prompt")]
    SessionPrompt {
        /// The id that a reply must name.
        prompt_id: PromptId,
        /// The question.
        prompt: String,
        /// The offered answers; absent if any text is accepted.
        #[serde(skip_serializing_if = "Option::is_none")]
        choices: Option<Vec<String>>,
        /// `true` if other text than the choices is accepted too.
        #[serde(skip_serializing_if = "Option::is_none")]
        allow_text: Option<bool>,
    },
    /// `session:reply`: the answer that was accepted. Other answers are not reported.
    #[serde(rename = "session:reply")]
    SessionReply {
        /// The question that it answers.
        prompt_id: PromptId,
        /// The answer. For a choice, it is the choice.
        content: String,
        /// The choice, if it was named as one.
        #[serde(skip_serializing_if = "Option::is_none")]
        choice: Option<String>,
    },
    /// `session:abort`: the conversation was ended. It is emitted once.
    #[serde(rename = "session:abort")]
    SessionAbort {
        /// The reason, as given with the abort.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// `session:message`: a person sent a message to the run, to an agent or to an execution.
    #[serde(rename = "session:message")]
    SessionMessage {
        /// The text.
        content: String,
        /// The agent that it is for.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_name: Option<String>,
        /// The execution that it is for, as the sender spelled it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<String>,
    },
    /// `narrative`: a sentence for people.
    #[serde(rename = "narrative")]
    Narrative {
        /// The sentence.
        text: String,
        /// A word for programs that show only some of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        importance: Option<String>,
    },
    /// `ledger:*`: a fact of the ledger that has no event of its own above.
    #[serde(untagged, skip_deserializing)]
    Ledger(LedgerEvent),
    /// Any other event, created with [`Event::custom`].
    #[serde(untagged)]
    Custom(CustomEvent),
}

/// An event that another program defines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomEvent {
    /// Its `type` on the wire.
    #[serde(rename = "type")]
    pub kind: String,
    /// The fields beside the type.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Event {
    /// Creates a custom event: `Event::custom("deploy:done", json!({ "url": … }))`. Fields that are
    /// not an object are kept under `data`.
    pub fn custom(kind: impl Into<String>, fields: Value) -> Self {
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            other => Map::from_iter([("data".to_owned(), other)]),
        };
        Self::Custom(CustomEvent { kind: kind.into(), fields })
    }

    /// Returns the `type` on the wire, which filters match.
    pub fn kind(&self) -> &str {
        match self {
            Self::HarnessStart { .. } => "harness:start",
            Self::HarnessComplete { .. } => "harness:complete",
            Self::PhaseStart { .. } => "phase:start",
            Self::PhaseComplete { .. } => "phase:complete",
            Self::PhaseFailed { .. } => "phase:failed",
            Self::TaskStart { .. } => "task:start",
            Self::TaskComplete { .. } => "task:complete",
            Self::TaskFailed { .. } => "task:failed",
            Self::TaskCheckpoint { .. } => "task:checkpoint",
            Self::RunIteration { .. } => "run:iteration",
            Self::RunWaiting { .. } => "run:waiting",
            Self::RunCheck { .. } => "run:check",
            Self::RunGate { .. } => "run:gate",
            Self::RunBudget { .. } => "run:budget",
            Self::AgentStart { .. } => "agent:start",
            Self::AgentComplete { .. } => "agent:complete",
            Self::AgentFailed { .. } => "agent:failed",
            Self::AgentText { .. } => "agent:text",
            Self::AgentThinking { .. } => "agent:thinking",
            Self::AgentToolStart { .. } => "agent:tool:start",
            Self::AgentToolComplete { .. } => "agent:tool:complete",
            Self::AgentUsage { .. } => "agent:usage",
            Self::SessionPrompt { .. } => "session:prompt",
            Self::SessionReply { .. } => "session:reply",
            Self::SessionAbort { .. } => "session:abort",
            Self::SessionMessage { .. } => "session:message",
            Self::Narrative { .. } => "narrative",
            Self::Ledger(ledger) => ledger.kind(),
            Self::Custom(custom) => &custom.kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_have_their_names_on_the_wire_and_no_nulls() {
        for (event, wire) in [
            (
                Event::HarnessComplete { success: true, duration_ms: 5 },
                json!({"type":"harness:complete","success":true,"durationMs":5}),
            ),
            (
                Event::PhaseStart { name: "P".into(), phase_number: None },
                json!({"type":"phase:start","name":"P"}),
            ),
            (
                Event::AgentStart { agent_name: "a".into(), run_id: ExecutionId(3) },
                json!({"type":"agent:start","agentName":"a","runId":"run-3"}),
            ),
            (Event::custom("x:y", json!({"n":1})), json!({"type":"x:y","n":1})),
            (Event::custom("bare", Value::Null), json!({"type":"bare"})),
        ] {
            let written = serde_json::to_value(&event).unwrap();
            assert_eq!(written, wire);
            assert_eq!(written["type"], event.kind());
            assert_eq!(serde_json::from_value::<Event>(wire).unwrap(), event);
        }
    }
}
