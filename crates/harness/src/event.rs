//! What happens in a run, as listeners and other programs see it.
//!
//! The names on the wire are fixed: `type` and camel-case fields. A field that has nothing to say
//! is absent, never null. An event of a type that we do not know passes through unchanged.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

/// An event with its identity, time and place.
#[derive(Debug, Clone, Serialize)]
pub struct Envelope {
    pub id: Uuid,
    pub timestamp: Moment,
    pub context: Arc<Context>,
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Event {
    #[serde(rename = "harness:start")]
    HarnessStart { name: String },
    #[serde(rename = "harness:complete")]
    HarnessComplete { success: bool, duration_ms: u64 },
    #[serde(rename = "phase:start")]
    PhaseStart {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase_number: Option<u32>,
    },
    #[serde(rename = "phase:complete")]
    PhaseComplete {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase_number: Option<u32>,
    },
    #[serde(rename = "phase:failed")]
    PhaseFailed {
        name: String,
        error: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        stack: Option<String>,
    },
    #[serde(rename = "task:start")]
    TaskStart { task_id: String },
    #[serde(rename = "task:complete")]
    TaskComplete {
        task_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    #[serde(rename = "task:failed")]
    TaskFailed {
        task_id: String,
        error: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        stack: Option<String>,
    },
    #[serde(rename = "agent:start")]
    AgentStart { agent_name: String, run_id: ExecutionId },
    #[serde(rename = "agent:complete")]
    AgentComplete { agent_name: String, success: bool, run_id: ExecutionId },
    #[serde(rename = "agent:failed")]
    AgentFailed { agent_name: String, run_id: ExecutionId, error: String },
    #[serde(rename = "agent:text")]
    AgentText {
        content: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    #[serde(rename = "agent:thinking")]
    AgentThinking {
        content: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    #[serde(rename = "agent:tool:start")]
    AgentToolStart {
        tool_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    #[serde(rename = "agent:tool:complete")]
    AgentToolComplete {
        tool_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<ExecutionId>,
    },
    #[serde(rename = "agent:usage")]
    AgentUsage {
        run_id: ExecutionId,
        input_tokens: u64,
        output_tokens: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        context_tokens: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    },
    #[serde(rename = "session:prompt")]
    SessionPrompt {
        prompt_id: PromptId,
        prompt: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        choices: Option<Vec<String>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        allow_text: Option<bool>,
    },
    #[serde(rename = "session:reply")]
    SessionReply {
        prompt_id: PromptId,
        content: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        choice: Option<String>,
    },
    #[serde(rename = "session:abort")]
    SessionAbort {
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    #[serde(rename = "session:message")]
    SessionMessage {
        content: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_name: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<String>,
    },
    #[serde(rename = "narrative")]
    Narrative {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        importance: Option<String>,
    },
    /// Anything else that somebody emits.
    #[serde(untagged)]
    Custom(CustomEvent),
}

/// An event of somebody else's making.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomEvent {
    #[serde(rename = "type")]
    pub kind: String,
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
            Self::Custom(custom) => &custom.kind,
        }
    }
}

/// Where in a run something happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    pub session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentContext>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseContext {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskContext {
    pub id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentContext {
    pub name: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// What a scope sets; the rest is inherited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    pub phase: Option<PhaseContext>,
    pub task: Option<TaskContext>,
    pub agent: Option<AgentContext>,
}

impl Scope {
    pub fn phase(name: impl Into<String>) -> Self {
        let phase = PhaseContext { name: name.into(), number: None };
        Self { phase: Some(phase), ..Self::default() }
    }

    pub fn task(id: impl Into<String>) -> Self {
        Self { task: Some(TaskContext { id: id.into() }), ..Self::default() }
    }

    pub fn agent(name: impl Into<String>) -> Self {
        Self { agent: Some(AgentContext { name: name.into(), kind: None }), ..Self::default() }
    }

    pub(crate) fn over(self, inherited: &Context) -> Context {
        Context {
            session_id: inherited.session_id.clone(),
            phase: self.phase.or_else(|| inherited.phase.clone()),
            task: self.task.or_else(|| inherited.task.clone()),
            agent: self.agent.or_else(|| inherited.agent.clone()),
        }
    }
}

/// One call of an agent: `run-0`, `run-1`, … in the order in which they were started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(pub u64);

/// One question: `prompt-0`, `prompt-1`, …
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromptId(pub u64);

macro_rules! counted_id {
    ($name:ident, $prefix:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "-{}"), self.0)
            }
        }

        impl $name {
            pub fn parse(text: &str) -> Option<Self> {
                let digits = text.strip_prefix(concat!($prefix, "-"))?;
                let id = Self(digits.parse().ok()?);
                // One name each: `run-007` is nobody's.
                (id.to_string() == text).then_some(id)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                Self::parse(&text)
                    .ok_or_else(|| serde::de::Error::custom(format!("bad id {text:?}")))
            }
        }
    };
}
counted_id!(ExecutionId, "run");
counted_id!(PromptId, "prompt");

/// Milliseconds since 1970, UTC. Within one hub it never runs backwards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    pub fn now() -> Self {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(since_1970.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        write!(f, "{time:.3}")
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
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

    #[test]
    fn moments_are_written_with_milliseconds() {
        assert_eq!(Moment(1_751_364_000_007).to_string(), "2025-07-01T10:00:00.007Z");
        assert_eq!(Moment(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn an_id_has_one_spelling() {
        assert_eq!(ExecutionId::parse("run-7"), Some(ExecutionId(7)));
        for bad in ["run-07", "run-", "run", "prompt-7", "run--1", "run-+1"] {
            assert_eq!(ExecutionId::parse(bad), None, "{bad}");
        }
    }
}
