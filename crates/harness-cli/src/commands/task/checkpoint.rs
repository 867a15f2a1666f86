//! `harness task checkpoint`

use harness::protocol::{ExtendedLease, TaskCheckpoint};

use super::{
    holder::{Claimed, Told},
    renew::tell_lease,
};
use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Record progress on a task, and renew the lease
///
/// An agent that harness started need not name the task: it is in its environment.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task checkpoint --step 2 --total 4 \"auth routes created, tests pending\"
  harness task checkpoint task-003 --step 1 --total 1 \"done but for the docs\"")]
pub(super) struct Args {
    #[command(flatten)]
    told: Told,
    /// The number of the step, from 1
    #[arg(long)]
    step: u32,
    /// The total number of steps
    #[arg(long)]
    total: u32,
    #[command(flatten)]
    claimed: Claimed,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The progress of the work.
#[derive(Debug)]
pub(crate) struct Done {
    /// The finished work.
    pub(crate) description: String,
    /// The number of the step, from 1.
    pub(crate) step: u32,
    /// The total number of steps.
    pub(crate) total: u32,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let (description, claimed) = args.told.of(args.claimed)?;
    let done = Done { description, step: args.step, total: args.total };
    let lease = checkpoint(invocation, &claimed, done)?;
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
    let task = holder.task.clone();
    let step = TaskCheckpoint { holder, step, total, description };
    invocation.with_client_of_task(&root, &task, |client| client.checkpoint(step))
}
