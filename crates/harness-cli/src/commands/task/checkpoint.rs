//! `harness task checkpoint`

use harness::protocol::{ExtendedLease, TaskCheckpoint};

use super::{holder::Claimed, renew::tell_lease};
use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Record progress on a task, and renew the lease
///
/// An agent that harness started needs no --id: the task is in its environment.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task checkpoint --step 2 --total 4 \"auth routes created, tests pending\"
  harness task checkpoint --id task-003 --step 1 --total 1 \"done but for the docs\"")]
pub(super) struct Args {
    #[command(flatten)]
    done: Done,
    #[command(flatten)]
    claimed: Claimed,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How far the work came.
#[derive(Debug, clap::Args)]
pub(crate) struct Done {
    /// What was done
    pub(crate) description: String,
    /// The number of the step, from 1
    #[arg(long)]
    pub(crate) step: u32,
    /// The total number of steps
    #[arg(long)]
    pub(crate) total: u32,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let lease = checkpoint(invocation, &args.claimed, args.done)?;
    tell_lease(invocation, &lease, args.json)
}

pub(crate) fn checkpoint(
    invocation: &Invocation,
    claimed: &Claimed,
    done: Done,
) -> Result<ExtendedLease> {
    let root = invocation.root()?;
    let holder = claimed.holder(invocation, &root)?;
    let Done { description, step, total } = done;
    let step = TaskCheckpoint { holder, step, total, description };
    invocation.with_client(&root, |client| client.checkpoint(step))
}
