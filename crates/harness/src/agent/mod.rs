//! The agent port: something that turns an input into an output and takes its time.
//!
//! An agent has its own input and output types, checked where it is used. What it tells while it
//! works it tells through its [`Execution`].

mod acp;
mod box_agent;
mod claude;
mod codex;
mod coding;
mod command;
mod desk;
mod pace;
mod prompt;
mod reason;
mod relay;
mod shell;
mod supervise;
mod tool_server;

use std::{future::Future, sync::Arc};

use harness_core::agent::{AgentEvent, StoppedBy};
use tokio_util::sync::CancellationToken;

use crate::{
    error::Result,
    event::{Event, ExecutionId},
    hub::{Hub, Inbox},
};

pub use acp::{AcpAgent, KnownAcpAgent};
pub use box_agent::{BoxAgent, boxed};
pub use claude::{ClaudeAgent, ClaudeSettings};
pub use codex::CodexAgent;
pub use coding::CodingAgent;
pub use command::{BadCommand, CommandAgent};
#[doc(hidden)]
pub use desk::{AtWork, Desk};
pub use prompt::Prompt;
pub(crate) use relay::Stop;
pub use relay::Told;
pub use shell::ShellAgent;
pub use tool_server::ToolServer;

/// Something that can be executed.
///
/// ```
/// use harness::{Agent, Execution, Result};
///
/// struct Shout;
///
/// impl Agent for Shout {
///     type Input = String;
///     type Output = String;
///
///     async fn execute(&self, input: String, _: &mut Execution) -> Result<String> {
///         Ok(input.to_uppercase())
///     }
/// }
/// ```
pub trait Agent: Send + Sync + 'static {
    /// What one execution needs.
    type Input: Send;
    /// What comes of it.
    type Output: Send;

    /// What sort of agent this is, for `context.agent.type`.
    fn kind(&self) -> Option<&str> {
        None
    }

    /// Whether it is given the tools of a [`ToolServer`]: it is told of them then.
    fn has_tools(&self) -> bool {
        false
    }

    /// Does it, once. Flows call [`Branch::execute`](crate::Branch::execute), which makes the
    /// `execution`. Executions of one agent may run side by side. Whatever is started outside of
    /// this future has to end when the execution is [cancelled](Execution::cancelled); the future
    /// itself may be dropped at any await.
    fn execute(
        &self,
        input: Self::Input,
        execution: &mut Execution,
    ) -> impl Future<Output = Result<Self::Output>> + Send;
}

impl<A: Agent> Agent for Arc<A> {
    type Input = A::Input;
    type Output = A::Output;

    fn kind(&self) -> Option<&str> {
        A::kind(self)
    }

    fn has_tools(&self) -> bool {
        A::has_tools(self)
    }

    async fn execute(&self, input: A::Input, execution: &mut Execution) -> Result<A::Output> {
        A::execute(self, input, execution).await
    }
}

/// One call of an agent, from the inside.
pub struct Execution {
    pub(crate) id: ExecutionId,
    pub(crate) hub: Hub,
    pub(crate) inbox: Inbox,
    pub(crate) cancelled: CancellationToken,
    pub(crate) stop: Stop,
    pub(crate) told: Option<Told>,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Execution").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Execution {
    /// `runId` in its events.
    pub fn id(&self) -> ExecutionId {
        self.id
    }

    /// Events told here carry the agent's name.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// What people say to this execution.
    pub fn inbox(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    /// Is cancelled when this execution has to end, at the latest when the run is dropped: whatever
    /// the agent started has to end then.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Who or what ended it, once it is cancelled. [`StoppedBy::User`] where nobody gave a cause.
    pub fn stopped_by(&self) -> StoppedBy {
        self.stop.cause.get().copied().unwrap_or(StoppedBy::User)
    }

    /// Tells what a coding agent did: on the hub, and to the machine that drives this execution, if
    /// one does. Limits, sessions and checkpoints are told to the machine alone. Never waits.
    pub fn tell(&self, event: AgentEvent) {
        if let Some(told) = &self.told {
            told.tell(&event);
        }
        let run_id = Some(self.id);
        let event = match event {
            AgentEvent::Text(content) => Event::AgentText { content, run_id },
            AgentEvent::Thinking(content) => Event::AgentThinking { content, run_id },
            AgentEvent::ToolStart { name, input } => {
                Event::AgentToolStart { tool_name: name, input, run_id }
            }
            AgentEvent::ToolEnd { name, result, is_error } => {
                let is_error = is_error.then_some(true);
                Event::AgentToolComplete { tool_name: name, result, is_error, run_id }
            }
            AgentEvent::Usage(usage) => Event::AgentUsage {
                run_id: self.id,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cost_usd: usage.cost_usd,
                context_tokens: None,
                context_window: None,
            },
            AgentEvent::Context { used_tokens, window_tokens } => Event::AgentUsage {
                run_id: self.id,
                input_tokens: 0,
                output_tokens: 0,
                cost_usd: None,
                context_tokens: Some(used_tokens),
                context_window: Some(window_tokens),
            },
            // Decisions need these; people see what follows from them.
            AgentEvent::Limit { .. }
            | AgentEvent::Helped(_)
            | AgentEvent::Session(_)
            | AgentEvent::Checkpoint { .. }
            | AgentEvent::Promised
            | AgentEvent::GaveUp { .. } => return,
        };
        self.hub.emit(event);
    }
}

/// An agent under the name that events call it by. Clones are the same agent.
pub struct Named<A> {
    pub(crate) name: Arc<str>,
    pub(crate) agent: Arc<A>,
}

/// Gives an agent its name.
pub fn named<A: Agent>(name: &str, agent: A) -> Named<A> {
    Named { name: name.into(), agent: Arc::new(agent) }
}

impl<A: Agent> Named<A> {
    /// Whether it is given the harness's tools.
    pub fn has_tools(&self) -> bool {
        self.agent.has_tools()
    }
}

impl<A> Clone for Named<A> {
    fn clone(&self) -> Self {
        Self { name: Arc::clone(&self.name), agent: Arc::clone(&self.agent) }
    }
}
