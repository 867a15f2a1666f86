//! `harness reply`

use harness::host::client::ANSWER_WITHIN;
use harness_core::role::Operation;
use serde_json::json;

use super::Invocation;
use crate::{exit::ExitCode, failure::Result};

/// Answer a question
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
    let request = json!({ "command": "reply", "prompt_id": args.prompt_id, "content": args.text,
        "choice": args.choice });
    invocation.ask_running(&root, request, Some(ANSWER_WITHIN))?;
    Ok(ExitCode::Done)
}
