//! `harness task checkpoint`

use harness_core::{Command, command::AddCheckpoint};

use super::{Invocation, holder::Claimed, renew::tell_lease};
use crate::{exit::ExitCode, failure::Result};

/// Record how far the work came, and renew the lease
///
/// An agent that the harness started needs no --id: the task is in its environment.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task checkpoint --step 2 --total 4 \"auth routes created, tests pending\"
  harness task checkpoint --id task-003 --step 1 --total 1 \"done but for the docs\"")]
pub(super) struct Args {
    /// What was done
    description: String,
    /// Which step it was, from 1
    #[arg(long)]
    step: u32,
    /// Of how many
    #[arg(long)]
    total: u32,
    #[command(flatten)]
    claimed: Claimed,
    /// Answer with a JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let command = Command::Checkpoint(AddCheckpoint {
        holder: args.claimed.holder(invocation, &root)?,
        step: args.step,
        total: args.total,
        description: args.description,
        tree: None,
        lease_seconds: invocation.lease_seconds()?,
    });
    let reply = invocation.apply(&root, command)?;
    tell_lease(invocation, reply, args.json)
}
