//! `harness task retry`

use harness::protocol::{Request, TaskReason};
use harness_core::TaskId;

use super::done;
use crate::{exit::ExitCode, failure::Result, invocation::Invocation, store::task_id};

/// Give a failed task a new set of attempts
///
/// Tasks that failed only because of this one can run again too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task retry task-002
  harness task retry task-002 --reason 'the database is back'")]
pub(super) struct Args {
    /// The task
    #[arg(value_parser = task_id)]
    id: TaskId,
    /// The reason, for the log
    #[arg(long, default_value = "retried by hand")]
    reason: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let retry = TaskReason { task_id: args.id, reason: Some(args.reason) };
    done(invocation, Request::TaskRetry(retry), "is pending again", args.json)
}
