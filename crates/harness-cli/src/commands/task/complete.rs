//! `harness task complete`

use harness::protocol::CompletedTask;
use harness_core::command::Authority;

use super::holder::Claimed;
use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Check a task, and mark it as completed if the check passes
///
/// The daemon, which is started if there is none, runs the task's check (validation.command) in its
/// work tree. The task counts as completed only if the check passes. Otherwise the task stays
/// yours, no attempt is counted, and the end of the output is shown. A task without a check is
/// completed on your word, and the log says so.
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
    /// Print JSON
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
