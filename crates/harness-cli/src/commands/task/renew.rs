//! `harness task renew`

use harness::protocol::ExtendedLease;

use super::holder::Named;
use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Renew the lease of a claim
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task renew
  harness task renew task-003 --worker alice")]
pub(super) struct Args {
    #[command(flatten)]
    named: Named,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let holder = args.named.claimed().holder(invocation, &root)?;
    let lease = invocation
        .with_client_of_task(&root, &holder.task.clone(), |client| client.renew(holder))?;
    tell_lease(invocation, &lease, args.json)
}

pub(super) fn tell_lease(
    invocation: &mut Invocation,
    lease: &ExtendedLease,
    json: bool,
) -> Result<ExitCode> {
    if json {
        invocation.out.document(lease)?;
    } else {
        let ExtendedLease { task_id, lease_expires_at } = lease;
        invocation.out.line(format_args!("Task {task_id} is yours until {lease_expires_at}"))?;
    }
    Ok(ExitCode::Done)
}
