//! `harness plan reset`

use std::path::Path;

use harness::protocol::ResetPlan;
use harness_core::role::Operation;
use serde_json::json;

use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::visible,
    prompt::{Answer, Audience, confirm},
    render::tasks,
};

/// Remove all tasks; the ledger is archived first
///
/// Sessions, their limits and the log stay. Asks for confirmation; without a terminal it needs
/// --yes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness plan reset
  harness plan reset --yes")]
pub(crate) struct Args {
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::ResetPlan)?;
    if !args.yes {
        if Audience::of_this_process() == Audience::Nobody {
            return Err(Failure::usage("there is no terminal to ask on; nothing was changed")
                .hint("to remove the tasks without a question: `harness plan reset --yes`"));
        }
        let question = match invocation.look(&root) {
            Ok(ledger) => {
                let unfinished = ledger.tasks().filter(|task| task.unfinished()).count();
                format!("Remove {}, {unfinished} of them unfinished?", tasks(ledger.len()))
            }
            // A broken ledger is restored by the reset itself, and then archived.
            Err(_) => "Remove all tasks?".to_owned(),
        };
        match confirm(&question)? {
            Answer::Yes => {}
            Answer::No => {
                eprintln!("Nothing was changed");
                return Ok(ExitCode::Error);
            }
        }
    }
    let reset = invocation.with_client(&root, |client| client.reset_plan())?;
    let ResetPlan { task_count, archive, .. } = reset;
    let archived = archive.as_deref().map(Path::to_string_lossy);
    if args.json {
        invocation.out.document(&json!({ "task_count": task_count, "archive": archived }))?;
        return Ok(ExitCode::Done);
    }
    invocation.out.line(format_args!("Plan reset ({})", tasks(task_count)))?;
    if let Some(path) = archived {
        invocation.out.line(format_args!("Archived: {}", visible(&path)))?;
    }
    Ok(ExitCode::Done)
}
