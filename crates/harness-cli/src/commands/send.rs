//! `harness send`

use harness::protocol::SentMessage;
use harness_core::role::Operation;

use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
};

/// Send a message to the active run, or to one of its agents
///
/// Prints how many agents received it. If none did, the exit code is 1: an agent may have ended, or
/// it may be one that does not read messages while it works.
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
    let is_addressed = agent.is_some() || run_id.is_some();
    let message = SentMessage { content: text, agent, run_id };
    match invocation.with_client(&root, |client| client.send(message))? {
        Some(0) => Err(not_received(is_addressed)),
        Some(1) => {
            invocation.out.line("received by 1 agent")?;
            Ok(ExitCode::Done)
        }
        Some(count) => {
            invocation.out.line(format_args!("received by {count} agents"))?;
            Ok(ExitCode::Done)
        }
        // An older host does not report it.
        None => Ok(ExitCode::Done),
    }
}

fn not_received(is_addressed: bool) -> Failure {
    let failure = Failure::error("no agent received it");
    if is_addressed {
        return failure
            .hint("no agent of that name is at work, or it does not read messages while it works")
            .hint("without --agent, `harness send` reaches every agent of the run");
    }
    failure.hint("no agent is at work, or none of them reads messages while it works")
}
