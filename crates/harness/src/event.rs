//! What happens in a run, as listeners and other programs see it.
//!
//! The names on the wire are fixed: `type` and camel-case fields. A field that has nothing to say
//! is absent, never null. An event of a type that we do not know passes through unchanged.

mod context;
mod fact;
mod id;

use std::sync::Arc;

use harness_core::{RunId, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

pub use context::{AgentContext, Context, PhaseContext, Scope, TaskContext};
pub use fact::LedgerEvent;
pub use id::{ExecutionId, Moment, PromptId};

/// An event with its identity, time and place: what listeners get and what is written down.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Envelope {
    /// Version 7: sorts by time, to the millisecond.
    pub id: Uuid,
    /// When it was emitted; within one hub never earlier than the event before.
    pub timestamp: Moment,
    /// Where in the run it happened.
    pub context: Arc<Context>,
    /// What happened.
    pub event: Event,
}

/// What happened.
///
/// The start and the end of a phase, a task or an agent are told outside of the scope that they
/// open: `task:start` carries the phase's context and no task.
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
    /// `harness:complete`: the flow is over, well or not. Cleanups come after it.
    #[serde(rename = "harness:complete")]
    HarnessComplete {
        /// Whether the flow returned `Ok`.
        success: bool,
        /// From `harness:start` to here, in milliseconds.
        duration_ms: u64,
    },
    /// `phase:start`
    #[serde(rename = "phase:start")]
    PhaseStart {
        /// The phase's name.
        name: String,
        /// Its number, where the flow gave one.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase_number: Option<u32>,
    },
    /// `phase:complete`: its body returned `Ok`.
    #[serde(rename = "phase:complete")]
    PhaseComplete {
        /// The phase's name.
        name: String,
        /// Its number, where the flow gave one.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase_number: Option<u32>,
    },
    /// `phase:failed`: its body returned an error, which is passed on to the caller.
    #[serde(rename = "phase:failed")]
    PhaseFailed {
        /// The phase's name.
        name: String,
        /// The error in words.
        error: String,
        /// For programs in languages that have one; never set by this library.
        #[serde(skip_serializing_if = "Option::is_none")]
        stack: Option<String>,
    },
    /// `task:start`
    #[serde(rename = "task:start")]
    TaskStart {
        /// As given to [`Cx::task`](crate::Cx::task).
        task_id: String,
    },
    /// `task:complete`: its body returned `Ok`.
    #[serde(rename = "task:complete")]
    TaskComplete {
        /// As in `task:start`.
        task_id: String,
        /// What the body returned, as JSON. Absent if that is nothing, or is no JSON.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    /// `task:failed`: its body returned an error, which is passed on to the caller.
    #[serde(rename = "task:failed")]
    TaskFailed {
        /// As in `task:start`.
        task_id: String,
        /// The error in words.
        error: String,
        /// For programs in languages that have one; never set by this library.
        #[serde(skip_serializing_if = "Option::is_none")]
        stack: Option<String>,
    },
    /// `task:checkpoint`: an attempt reports how far it is.
    #[serde(rename = "task:checkpoint")]
    TaskCheckpoint {
        /// As in the ledger.
        task_id: TaskId,
        /// The step that is done.
        step: u32,
        /// How many there are.
        total: u32,
        /// What the step was.
        description: String,
    },
    /// `run:iteration`: the next context of a run begins.
    #[serde(rename = "run:iteration")]
    RunIteration {
        /// The row of the run: of the whole run, or of the attempt at a task.
        row_id: RunId,
        /// The task, where the run is an attempt at one.
        #[serde(skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        /// Its number; the first context is 0.
        iteration: u32,
        /// The number of the last one that may begin.
        max_iterations: u32,
    },
    /// `run:waiting`: a usage limit is waited out.
    #[serde(rename = "run:waiting")]
    RunWaiting {
        /// As in `run:iteration`.
        row_id: RunId,
        /// As in `run:iteration`.
        #[serde(skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        /// When the run goes on.
        until: Timestamp,
    },
    /// `agent:start`: an execution begins. Its inbox is open already.
    #[serde(rename = "agent:start")]
    AgentStart {
        /// As given to [`named`](crate::named).
        agent_name: String,
        /// The execution, by which [`Hub::send_to_run`](crate::Hub::send_to_run) finds it.
        run_id: ExecutionId,
    },
    /// `agent:complete`: the execution is over, with a result or an error. There is exactly one for each
    /// execution that was not dropped.
    #[serde(rename = "agent:complete")]
    AgentComplete {
        /// As in `agent:start`.
        agent_name: String,
        /// Whether the agent returned `Ok`. If not, an `agent:failed` with the error follows.
        success: bool,
        /// As in `agent:start`.
        run_id: ExecutionId,
    },
    /// `agent:failed`: the agent returned an error. Follows the `agent:complete` of the same execution.
    #[serde(rename = "agent:failed")]
    AgentFailed {
        /// As in `agent:start`.
        agent_name: String,
        /// As in `agent:start`.
        run_id: ExecutionId,
        /// The error in words.
        error: String,
    },
    /// `agent:text`: a piece of what the agent says, not necessarily a whole line.
    #[serde(rename = "agent:text")]
    AgentText {
        /// The text.
        content: String,
        /// The execution that says it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    /// `agent:thinking`: what it says to itself.
    #[serde(rename = "agent:thinking")]
    AgentThinking {
        /// The text.
        content: String,
        /// The execution that thinks it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    /// `agent:tool:start`: the agent begins to use a tool.
    #[serde(rename = "agent:tool:start")]
    AgentToolStart {
        /// The agent's own name for the tool.
        tool_name: String,
        /// What the tool is given.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        /// The execution that uses it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    /// `agent:tool:complete`: the tool answered, well or not.
    #[serde(rename = "agent:tool:complete")]
    AgentToolComplete {
        /// As in `agent:tool:start`.
        tool_name: String,
        /// What the tool answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        /// Absent where all went well.
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        /// The execution that used it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    /// `agent:usage`: what was spent since the last of these, or how full the context is.
    #[serde(rename = "agent:usage")]
    AgentUsage {
        /// The execution that spent it.
        run_id: ExecutionId,
        /// More by this many, not a total; cached input counts.
        input_tokens: u64,
        /// More by this many, not a total.
        output_tokens: u64,
        /// More by this many dollars, where the agent says so.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// How much of the context window is used now.
        #[serde(skip_serializing_if = "Option::is_none")]
        context_tokens: Option<u64>,
        /// How large the context window is.
        #[serde(skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    },
    /// `session:prompt`: the run asks and waits for [`Hub::reply`](crate::Hub::reply).
    #[serde(rename = "session:prompt")]
    SessionPrompt {
        /// What a reply has to name.
        prompt_id: PromptId,
        /// The question.
        prompt: String,
        /// The answers on offer; absent where any text will do.
        #[serde(skip_serializing_if = "Option::is_none")]
        choices: Option<Vec<String>>,
        /// Whether something else than the choices will do too.
        #[serde(skip_serializing_if = "Option::is_none")]
        allow_text: Option<bool>,
    },
    /// `session:reply`: the answer that was accepted. Others are not told.
    #[serde(rename = "session:reply")]
    SessionReply {
        /// The question that it answers.
        prompt_id: PromptId,
        /// The answer; that of a choice is the choice.
        content: String,
        /// The choice that was taken, if it was named as one.
        #[serde(skip_serializing_if = "Option::is_none")]
        choice: Option<String>,
    },
    /// `session:abort`: somebody ended the conversation; told once.
    #[serde(rename = "session:abort")]
    SessionAbort {
        /// In the words of the reporter.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// `session:message`: somebody said something to the run, to an agent or to an execution.
    #[serde(rename = "session:message")]
    SessionMessage {
        /// What was said.
        content: String,
        /// The agent that it was said to.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_name: Option<String>,
        /// The execution that it was said to, as the sender spelled it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<String>,
    },
    /// `narrative`: a sentence for people.
    #[serde(rename = "narrative")]
    Narrative {
        /// The sentence.
        text: String,
        /// A keyword for consumers that show only some of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        importance: Option<String>,
    },
    /// `ledger:*`: something became true in the ledger that has no event of its own above.
    #[serde(untagged, skip_deserializing)]
    Ledger(LedgerEvent),
    /// Anything else that somebody emits, made with [`Event::custom`].
    #[serde(untagged)]
    Custom(CustomEvent),
}

/// An event of somebody else's making.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomEvent {
    /// Its `type` on the wire.
    #[serde(rename = "type")]
    pub kind: String,
    /// What stands beside the type.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Event {
    /// An event of one's own: `Event::custom("deploy:done", json!({ "url": … }))`. Fields that are
    /// not an object are kept under `data`.
    pub fn custom(kind: impl Into<String>, fields: Value) -> Self {
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            other => Map::from_iter([("data".to_owned(), other)]),
        };
        Self::Custom(CustomEvent { kind: kind.into(), fields })
    }

    /// The `type` on the wire, by which filters choose.
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
