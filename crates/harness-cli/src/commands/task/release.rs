//! `harness task release`

use harness::protocol::{Request, TaskReason};
use harness_core::TaskId;

use super::done;
use crate::{exit::ExitCode, failure::Result, invocation::Invocation, store::task_id};

/// Return a claimed task to pending
///
/// No attempt is counted. From then on, requests of the former holder are refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task release task-002
  harness task release task-002 --reason 'worker is gone'")]
pub(super) struct Args {
    /// The task
    #[arg(value_parser = task_id)]
    id: TaskId,
    /// The reason, for the log
    #[arg(long, default_value = "released by hand")]
    reason: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let release = TaskReason { task_id: args.id, reason: Some(args.reason) };
    done(invocation, Request::TaskRelease(release), "is pending again", args.json)
}
