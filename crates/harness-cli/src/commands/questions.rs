//! `harness questions`

use harness::host::client::ANSWER_WITHIN;
use serde_json::{Value, json};

use super::Invocation;
use crate::{exit::ExitCode, failure::Result, render::one_line};

/// List the questions that wait for an answer
///
/// One per line: the id that `harness reply` takes, the question, and the choices if there are any.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness questions
  harness questions --json | jq -r '.questions[].prompt_id'")]
pub(crate) struct Args {
    /// Answer with a JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let request = json!({ "command": "questions" });
    let open = invocation.ask_running(&root, request, Some(ANSWER_WITHIN))?;
    if args.json {
        invocation.out.document(&json!({ "questions": open }))?;
        return Ok(ExitCode::Done);
    }
    for question in open.as_array().into_iter().flatten() {
        let text = |name: &str| question[name].as_str().unwrap_or_default().to_owned();
        let (id, asked) = (text("prompt_id"), text("question"));
        let choices = question["choices"].as_array().into_iter().flatten();
        let choices: Vec<&str> = choices.filter_map(Value::as_str).collect();
        let choices = match choices.is_empty() {
            true => String::new(),
            false => format!(" [{}]", choices.join(", ")),
        };
        invocation.out.line(one_line(&format!("{id}: {asked}{choices}")))?;
    }
    Ok(ExitCode::Done)
}
