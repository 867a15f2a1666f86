//! `harness task remove`

use harness::protocol::Request;
use harness_core::TaskId;

use super::done;
use crate::{exit::ExitCode, failure::Result, invocation::Invocation, store::task_id};

/// Remove a task from the ledger
///
/// Refused while the task is claimed, or while another task depends on it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task remove task-002")]
pub(super) struct Args {
    /// The task
    #[arg(value_parser = task_id)]
    id: TaskId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    done(invocation, Request::TaskRemove { task_id: args.id }, "removed", args.json)
}
