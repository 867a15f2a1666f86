//! `harness task renew`

use harness_core::{Command, Reply, command::Renew};
use serde_json::json;

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
    let lease_seconds = invocation.lease_seconds()?;
    let reply = invocation.apply(&root, Command::Renew(Renew { holder, lease_seconds }))?;
    tell_lease(invocation, reply, args.json)
}

pub(super) fn tell_lease(
    invocation: &mut Invocation,
    reply: Reply,
    json: bool,
) -> Result<ExitCode> {
    let Reply::Lease { task, expires_at } = reply else {
        return Err(Failure::error(format!("unexpected answer: {reply:?}")));
    };
    if json {
        invocation.out.document(&json!({ "task_id": task, "lease_expires_at": expires_at }))?;
    } else {
        invocation.out.line(format_args!("Task {task} is yours until {expires_at}"))?;
    }
    Ok(ExitCode::Done)
}
