//! The coding agent that the user chose.

use harness_core::agent::End;

use super::{
    AcpAgent, Agent, ClaudeAgent, CodexAgent, CommandAgent, Execution, Prompt, ShellAgent,
};
use crate::error::Result;

/// The agents of the library as one type.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CodingAgent {
    /// The instructions of a task are a script.
    Shell(ShellAgent),
    /// A program that accepts a prompt.
    Command(CommandAgent),
    /// Claude Code.
    Claude(ClaudeAgent),
    /// OpenAI's Codex.
    Codex(CodexAgent),
    /// A program that speaks the Agent Client Protocol.
    Acp(AcpAgent),
}

impl Agent for CodingAgent {
    type Input = Prompt;
    type Output = End;

    fn kind(&self) -> Option<&str> {
        match self {
            Self::Shell(agent) => agent.kind(),
            Self::Command(agent) => agent.kind(),
            Self::Claude(agent) => agent.kind(),
            Self::Codex(agent) => agent.kind(),
            Self::Acp(agent) => agent.kind(),
        }
    }

    fn has_tools(&self) -> bool {
        match self {
            Self::Claude(agent) => agent.has_tools(),
            Self::Codex(agent) => agent.has_tools(),
            Self::Acp(agent) => agent.has_tools(),
            Self::Shell(_) | Self::Command(_) => false,
        }
    }

    async fn execute(&self, prompt: Prompt, execution: &mut Execution) -> Result<End> {
        match self {
            Self::Shell(agent) => agent.execute(prompt, execution).await,
            Self::Command(agent) => agent.execute(prompt, execution).await,
            Self::Claude(agent) => agent.execute(prompt, execution).await,
            Self::Codex(agent) => agent.execute(prompt, execution).await,
            Self::Acp(agent) => agent.execute(prompt, execution).await,
        }
    }
}
