//! `harness send`

use harness::protocol::SentMessage;
use harness_core::role::Operation;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Send a message to the active run, or to one of its agents
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness send 'the database is back'
  harness send 'leave the parser alone' --agent worker")]
pub(crate) struct Args {
    /// The message
    text: String,
    /// Send it only to this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Send it only to this execution of an agent
    #[arg(long, value_name = "ID", conflicts_with = "agent")]
    run_id: Option<String>,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Send)?;
    let Args { text, agent, run_id } = args;
    let message = SentMessage { content: text, agent, run_id };
    invocation.with_client(&root, |client| client.send(message))?;
    Ok(ExitCode::Done)
}
