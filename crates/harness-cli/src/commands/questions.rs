//! `harness questions`

use harness::protocol::QuestionView;
use serde_json::json;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation, paint::one_line};

/// List the questions that wait for an answer
///
/// Prints one per line: the id that `harness reply` takes, the question, and the choices if there
/// are any.
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
    for QuestionView { prompt_id, question, choices, .. } in open {
        let choices = match choices.is_empty() {
            true => String::new(),
            false => format!(" [{}]", choices.join(", ")),
        };
        invocation.out.line(one_line(&format!("{prompt_id}: {question}{choices}")))?;
    }
    Ok(ExitCode::Done)
}
