//! `harness task fail`

use harness::protocol::{FailedTask, TaskFail};
use harness_core::Category;

use super::holder::{Claimed, Told};
use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Mark your task as failed
///
/// Counts an attempt. Nothing is rolled back: a client takes care of its own work tree.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task fail task-002 \"Redis connection refused\"
  harness task fail --category ENV_SETUP \"no compiler\"")]
pub(super) struct Args {
    #[command(flatten)]
    why: Told,
    /// The category of the failure
    #[arg(long, default_value = "TASK_EXEC", value_parser = category)]
    category: Category,
    #[command(flatten)]
    claimed: Claimed,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn category(text: &str) -> std::result::Result<Category, String> {
    text.parse().map_err(|e: harness_core::category::UnknownCategory| e.to_string())
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let (message, claimed) = args.why.of(args.claimed)?;
    let failed = fail(invocation, &claimed, args.category, message)?;
    if args.json {
        invocation.out.document(&failed)?;
    } else {
        let FailedTask { task_id, retryable } = failed;
        let next = if retryable { "it will be tried again" } else { "it failed for good" };
        invocation.out.line(format_args!("Task {task_id} failed; {next}"))?;
    }
    Ok(ExitCode::Done)
}

pub(crate) fn fail(
    invocation: &Invocation,
    claimed: &Claimed,
    category: Category,
    message: String,
) -> Result<FailedTask> {
    let root = invocation.root()?;
    let holder = claimed.holder(invocation, &root)?;
    let task = holder.task.clone();
    let fail = TaskFail { holder, category, message };
    invocation.with_client_of_task(&root, &task, |client| client.fail(fail))
}
