//! `harness reply`

use harness::protocol::QuestionReply;
use harness_core::role::Operation;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Answer a question
///
/// With a ledger in a database the agent that asks may be on another machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness reply prompt-0-1f3a9c02 'use the staging database'
  harness reply prompt-1-77b0e4d1 yes --choice yes")]
pub(crate) struct Args {
    /// The question, as `harness questions` lists it
    prompt_id: String,
    /// The answer
    text: String,
    /// One of the choices that were offered
    #[arg(long, value_name = "CHOICE")]
    choice: Option<String>,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Reply)?;
    let Args { prompt_id, text, choice } = args;
    let reply = QuestionReply { prompt_id, content: text, choice };
    invocation.with_client(&root, |client| client.reply(reply))?;
    Ok(ExitCode::Done)
}
