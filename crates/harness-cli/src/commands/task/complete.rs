//! `harness task complete`

use std::io::{self, IsTerminal as _, Write as _};

use harness::protocol::{CompletedTask, TaskComplete};
use harness_core::{Task, TaskId, command::Authority, machine::judge::ClientWork, task::Via};

use super::holder::{Claimed, Named};
use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    paint::{visible, warn},
    root::StateRoot,
};

/// Check a task, and mark it as completed if the check passes
///
/// The daemon, which is started if there is none, runs the task's check (validation.command) in its
/// work tree. The task counts as completed only if the check passes. Otherwise the task stays
/// yours, no attempt is counted, and the end of the output is shown. A task without a check is
/// completed on your word, and the log says so.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task complete task-001
  harness task complete task-001 --commit   # commits the files that passed the check
  harness task complete task-001 --force   # another's, or unclaimed: still checked")]
pub(super) struct Args {
    #[command(flatten)]
    named: Named,
    /// Complete a task that another worker or nobody has claimed
    #[arg(long)]
    force: bool,
    /// Commit what is in no commit yet, as `harness run` does: the files that passed the check
    #[arg(long)]
    commit: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let authority = if args.force { Authority::Force } else { Authority::Holder };
    let work = if args.commit { ClientWork::Committed } else { ClientWork::Left };
    let completed = complete(invocation, &args.named.claimed(), authority, work)?;
    let CompletedTask { task_id, requested } = &completed;
    if args.json {
        invocation.out.document(&completed)?;
    } else if *requested {
        invocation.out.line(format_args!("Task {task_id}: check requested"))?;
    } else {
        invocation.out.line(format_args!("Task {task_id} completed"))?;
    }
    if !completed.requested {
        name_uncommitted(invocation, &completed.task_id);
    }
    Ok(ExitCode::Done)
}

/// Names the check to a person who waits for it. A command that works on the files does so itself.
fn announce(invocation: &Invocation, root: &StateRoot, task: &TaskId) {
    let asks_host = invocation.env.get("HARNESS_DAEMON").is_none_or(|value| value != "off");
    let Ok(ledger) = invocation.look(root) else { return };
    let of_client = |task: &&Task| asks_host && task.claimed_via() == Via::Client;
    if let Some(check) = ledger.task(task).filter(of_client).and_then(Task::check) {
        // If this fails, nothing is left to receive a message.
        _ = writeln!(io::stderr(), "checking {task}: {}", visible(check));
    }
}

/// Warns about files that passed the check but are in no commit, because they are lost with the
/// work tree.
fn name_uncommitted(invocation: &Invocation, task: &TaskId) {
    let Ok(root) = invocation.root() else { return };
    let receipt = harness::store::latest_receipt(root.path(), task).ok().flatten();
    if let Some(what) = receipt.and_then(|receipt| receipt.of_no_commit()) {
        warn(&format!("{task}: {what}; commit them, or complete with --commit next time"));
    }
}

/// Completes a task. The answer is `requested` if the check follows the end of the agent.
pub(crate) fn complete(
    invocation: &Invocation,
    claimed: &Claimed,
    authority: Authority,
    work: ClientWork,
) -> Result<CompletedTask> {
    let root = invocation.root()?;
    let holder = claimed.holder(invocation, &root)?;
    let task = holder.task.clone();
    let complete = TaskComplete { holder, authority, work };
    if io::stderr().is_terminal() {
        announce(invocation, &root, &task);
    }
    invocation.with_client_of_task(&root, &task, |client| client.complete_task(complete))
}
