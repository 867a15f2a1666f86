//! `harness pause`

use harness_core::role::Operation;
use serde_json::json;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation, root::StateRoot};

/// Stop claiming tasks
///
/// Attempts that have begun go on to their end. A run waits until `harness resume`, and a worker
/// that asks for a task gets none. The pause is stored in the ledger, so that it holds for runs that
/// begin later too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness pause
  harness resume")]
pub(crate) struct Args {
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Pause)?;
    invocation.with_client(&root, |client| client.pause())?;
    let text = "claiming is paused; `harness resume` starts it again";
    answer(invocation, &root, args.json.then_some(Json), text)
}

/// The wish for a document in the place of text.
pub(crate) struct Json;

/// Prints whether claiming is paused, as the ledger has it now.
pub(crate) fn answer(
    invocation: &mut Invocation,
    root: &StateRoot,
    json: Option<Json>,
    text: &str,
) -> Result<ExitCode> {
    match json {
        Some(Json) => {
            let paused_at = root.snapshot()?.head().paused_at;
            invocation.out.document(&json!({ "paused_at": paused_at }))?;
        }
        None => invocation.out.line(text)?,
    }
    Ok(ExitCode::Done)
}
