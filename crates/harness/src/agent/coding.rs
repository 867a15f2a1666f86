//! Whichever coding agent the user chose.

use harness_core::agent::End;

use super::{Agent, ClaudeAgent, CommandAgent, Execution, Prompt, ShellAgent};
use crate::error::Result;

/// The agents that come with the library, as one.
#[derive(Debug, Clone)]
pub enum CodingAgent {
    /// A task's instructions are a script.
    Shell(ShellAgent),
    /// Any program that takes a prompt.
    Command(CommandAgent),
    /// Claude Code.
    Claude(ClaudeAgent),
}

impl Agent for CodingAgent {
    type Input = Prompt;
    type Output = End;

    fn kind(&self) -> Option<&str> {
        match self {
            Self::Shell(agent) => agent.kind(),
            Self::Command(agent) => agent.kind(),
            Self::Claude(agent) => agent.kind(),
        }
    }

    async fn execute(&self, prompt: Prompt, execution: &mut Execution) -> Result<End> {
        match self {
            Self::Shell(agent) => agent.execute(prompt, execution).await,
            Self::Command(agent) => agent.execute(prompt, execution).await,
            Self::Claude(agent) => agent.execute(prompt, execution).await,
        }
    }
}
