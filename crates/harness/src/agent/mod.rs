//! The agent port: something that turns an input into an output and takes time.
//!
//! An agent has its own input and output types, which are checked where it is used. It reports
//! events through its [`Execution`].

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
mod threshold;
mod tool_server;

use std::{future::Future, sync::Arc};

use harness_core::agent::{AgentEvent, StoppedBy};
use tokio_util::sync::CancellationToken;

use crate::{
    error::Result,
    event::{Event, ExecutionId},
    hub::{Hub, Inbox},
};

#[doc(hidden)]
pub use acp::wire as acp_wire;
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
    /// The input of one execution.
    type Input: Send;
    /// The output of one execution.
    type Output: Send;

    /// Returns the kind of agent, for `context.agent.type`.
    fn kind(&self) -> Option<&str> {
        None
    }

    /// Returns whether it has the tools of a [`ToolServer`]. Its prompt mentions them then.
    fn has_tools(&self) -> bool {
        false
    }

    /// Executes the agent once. Flows call [`Branch::execute`](crate::Branch::execute), which
    /// creates the `execution`. Executions of one agent may run in parallel. Everything that is
    /// started outside of this future must end when the execution is
    /// [cancelled](Execution::cancelled). The future itself may be dropped at any await.
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
    /// Returns the `runId` of its events.
    pub fn id(&self) -> ExecutionId {
        self.id
    }

    /// Returns the hub. Events emitted here have the agent's name.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Returns the messages of people to this execution.
    pub fn inbox(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    /// Returns a token that is cancelled when this execution must end, at the latest when the run
    /// is dropped. Everything that the agent started must end then.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Returns the reason of the stop, once it is cancelled; [`StoppedBy::User`] if there is no
    /// other.
    pub fn stopped_by(&self) -> StoppedBy {
        self.stop.cause().unwrap_or(StoppedBy::User)
    }

    /// Reports an action of a coding agent: on the hub, and to the machine that drives this
    /// execution, if one does. Limits, sessions and checkpoints go to the machine alone. It never
    /// waits.
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
            // Decisions need these events. People see their consequences.
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

/// An agent with the name that events use. Clones are the same agent.
pub struct Named<A> {
    pub(crate) name: Arc<str>,
    pub(crate) agent: Arc<A>,
}

/// Gives an agent its name.
pub fn named<A: Agent>(name: &str, agent: A) -> Named<A> {
    Named { name: name.into(), agent: Arc::new(agent) }
}

impl<A: Agent> Named<A> {
    /// Returns whether it has harness's tools.
    pub fn has_tools(&self) -> bool {
        self.agent.has_tools()
    }
}

impl<A> Clone for Named<A> {
    fn clone(&self) -> Self {
        Self { name: Arc::clone(&self.name), agent: Arc::clone(&self.agent) }
    }
}
