//! `harness task renew`

use harness_core::{Command, Reply, TaskId, Timestamp, command::Renew, role::Operation};
use serde::Serialize;

use super::{Invocation, holder::Claimed};
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
};

/// Keep a claim for another lease
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task renew
  harness task renew --id task-003 --worker alice")]
pub(super) struct Args {
    #[command(flatten)]
    claimed: Claimed,
    /// Answer with a JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let holder = args.claimed.holder(invocation, &root)?;
    invocation.permit_holder(&root, Operation::Renew, &holder)?;
    let lease_seconds = invocation.lease_seconds()?;
    let reply = invocation.apply(&root, Command::Renew(Renew { holder, lease_seconds }))?;
    tell_lease(invocation, &reply.try_into()?, args.json)
}

/// How long a claim lasts now.
#[derive(Debug, Serialize)]
pub(crate) struct Lease {
    task_id: TaskId,
    lease_expires_at: Timestamp,
}

impl TryFrom<Reply> for Lease {
    type Error = Failure;

    fn try_from(reply: Reply) -> Result<Self> {
        match reply {
            Reply::Lease { task, expires_at } => {
                Ok(Self { task_id: task, lease_expires_at: expires_at })
            }
            other => Err(Failure::error(format!("unexpected answer: {other:?}"))),
        }
    }
}

pub(super) fn tell_lease(
    invocation: &mut Invocation,
    lease: &Lease,
    json: bool,
) -> Result<ExitCode> {
    if json {
        invocation.out.document(lease)?;
    } else {
        let Lease { task_id, lease_expires_at } = lease;
        invocation.out.line(format_args!("Task {task_id} is yours until {lease_expires_at}"))?;
    }
    Ok(ExitCode::Done)
}
