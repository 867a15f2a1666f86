//! `harness task complete`

use harness::protocol::CompletedTask;
use harness_core::command::Authority;

use super::{Invocation, holder::Claimed};
use crate::{exit::ExitCode, failure::Result};

/// Say that a task is done, and have it checked
///
/// The task's check (validation.command) is run, in the work tree, and only if it passes does the
/// task count as completed. If it does not pass the task stays yours, no attempt is counted, and the
/// end of the output is shown. A task that has no check is completed on your word, which is logged.
/// The daemon has the check run, in its work tree, and is started if there is none.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task complete --id task-001
  harness task complete --id task-001 --force   # another's, or unclaimed: still checked")]
pub(super) struct Args {
    #[command(flatten)]
    claimed: Claimed,
    /// Complete a task that another worker or nobody has claimed
    #[arg(long)]
    force: bool,
    /// Answer with a JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let authority = if args.force { Authority::Force } else { Authority::Holder };
    let completed = complete(invocation, &args.claimed, authority)?;
    let CompletedTask { task_id, requested } = &completed;
    if args.json {
        invocation.out.document(&completed)?;
    } else if *requested {
        invocation.out.line(format_args!("Task {task_id}: check requested"))?;
    } else {
        invocation.out.line(format_args!("Task {task_id} completed"))?;
    }
    Ok(ExitCode::Done)
}

/// The answer is `requested` where the check follows the end of the agent.
pub(crate) fn complete(
    invocation: &Invocation,
    claimed: &Claimed,
    authority: Authority,
) -> Result<CompletedTask> {
    let root = invocation.root()?;
    let holder = claimed.holder(invocation, &root)?;
    invocation.with_client(&root, |client| client.complete_as(holder, authority))
}
