//! `harness questions`

use serde_json::json;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation, paint::one_line};

/// List the questions that wait for an answer
///
/// Prints one per line: the id that `harness reply` takes, the question, and the choices if there
/// are any. With a ledger in a database the questions of all machines are listed, those of others with
/// the name of the machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness questions
  harness questions --json | jq -r '.questions[].prompt_id'")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let open = invocation.with_client(&root, |client| client.questions())?;
    if args.json {
        invocation.out.document(&json!({ "questions": open }))?;
        return Ok(ExitCode::Done);
    }
    if open.is_empty() {
        eprintln!("no question waits for an answer");
    }
    for question in open {
        invocation.out.line(one_line(&question.shown()))?;
    }
    Ok(ExitCode::Done)
}
