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
/// it may be one that does not read messages while it works. With a ledger in a database the message
/// goes to the agents of all machines.
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
    let hint = match (&agent, &run_id) {
        (None, None) => "no agent is at work, or none of them reads messages while it works",
        (Some(_), _) | (_, Some(_)) => {
            "it is not at work, or it does not read messages while it works; without --agent the \
             message goes to every agent of the run"
        }
    };
    let message = SentMessage { content: text, agent, run_id };
    match invocation.with_client(&root, |client| client.send(message))? {
        Some(0) => Err(Failure::error("no agent received it").hint(hint)),
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
