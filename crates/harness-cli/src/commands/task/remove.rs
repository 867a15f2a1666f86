//! `harness task remove`

use harness::protocol::Request;
use harness_core::TaskId;

use super::{Invocation, done};
use crate::{exit::ExitCode, failure::Result, store::task_id};

/// Take a task out of the ledger
///
/// Not while it is claimed, and not while another task depends on it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task remove task-002")]
pub(super) struct Args {
    /// The task
    #[arg(value_parser = task_id)]
    id: TaskId,
    /// Answer with a JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    done(invocation, Request::TaskRemove { task_id: args.id }, "removed", args.json)
}
