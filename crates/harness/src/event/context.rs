//! The place of an event in a run.

use serde::{Deserialize, Serialize};

/// The place in a run where something happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    /// The id of the session, the same in all events of a hub.
    pub session_id: String,
    /// The innermost phase around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseContext>,
    /// The innermost task around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskContext>,
    /// The agent that emits it. It is set only on events inside of an execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentContext>,
    /// The worker, if several work at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// A phase, as events inside of it name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseContext {
    /// The name that was passed to [`Cx::phase`](crate::Cx::phase).
    pub name: String,
    /// The number, if the flow gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
}

/// A task, as events inside of it name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskContext {
    /// The id that was passed to [`Cx::task`](crate::Cx::task).
    pub id: String,
}

/// An agent, as the events of its executions name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentContext {
    /// The name that was passed to [`named`](crate::named).
    pub name: String,
    /// The kind, `type` on the wire; see [`Agent::kind`](crate::Agent::kind).
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// The values that a scope sets. `None` is inherited from the scope around it, so a scope can
/// replace a phase but not leave one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// See [`Context::phase`].
    pub phase: Option<PhaseContext>,
    /// See [`Context::task`].
    pub task: Option<TaskContext>,
    /// See [`Context::agent`].
    pub agent: Option<AgentContext>,
    /// See [`Context::worker`].
    pub worker: Option<String>,
}

impl Scope {
    /// A scope in a phase without a number.
    pub fn phase(name: impl Into<String>) -> Self {
        let phase = PhaseContext { name: name.into(), number: None };
        Self { phase: Some(phase), ..Self::default() }
    }

    /// A scope in a task.
    pub fn task(id: impl Into<String>) -> Self {
        Self { task: Some(TaskContext { id: id.into() }), ..Self::default() }
    }

    /// A scope in an agent without a kind.
    pub fn agent(name: impl Into<String>) -> Self {
        Self { agent: Some(AgentContext { name: name.into(), kind: None }), ..Self::default() }
    }

    /// A scope of one of several workers.
    pub fn worker(id: impl Into<String>) -> Self {
        Self { worker: Some(id.into()), ..Self::default() }
    }

    pub(crate) fn over(self, inherited: &Context) -> Context {
        Context {
            session_id: inherited.session_id.clone(),
            phase: self.phase.or_else(|| inherited.phase.clone()),
            task: self.task.or_else(|| inherited.task.clone()),
            agent: self.agent.or_else(|| inherited.agent.clone()),
            worker: self.worker.or_else(|| inherited.worker.clone()),
        }
    }
}
