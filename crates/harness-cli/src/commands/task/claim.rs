//! `harness task claim`

use harness::{host::wire, workspace::glance};
use harness_core::{
    Command, Reply,
    command::{Claim, Place},
    task::Via,
};
use serde_json::json;

use super::Invocation;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    root::StateRoot,
    worker,
};

/// Take the next task
///
/// Prints the task with its instructions as JSON, or `"task":null` when nothing is ready. Asked
/// again, a worker is given what it already has. Where git is, the commit that the work starts from
/// is recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task claim
  harness task claim --role backend --worker alice")]
pub(super) struct Args {
    /// Only tasks of this role, or of none
    #[arg(long)]
    role: Option<String>,
    #[command(flatten)]
    worker: worker::Choice,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let worker = args.worker.id(&invocation.env, || Ok(root.clone()))?;
    let claim = Claim {
        worker,
        via: Via::Client,
        role: args.role,
        only: None,
        lease_seconds: invocation.lease_seconds()?,
        place: place(&root),
    };
    let data = match invocation.apply(&root, Command::Claim(claim))? {
        Reply::NothingToClaim => json!({ "task": null }),
        Reply::Claimed(claimed) => json!({
            "task": wire::task(&claimed.task),
            "is_retry": claimed.is_retry,
            "is_reclaim": claimed.is_reclaim,
        }),
        other => return Err(Failure::error(format!("unexpected answer: {other:?}"))),
    };
    invocation.out.json(&data)?;
    Ok(ExitCode::Done)
}

/// A client does its own git work: of the repository only HEAD is looked at, and where there is
/// none the claim says so (`base=none`).
fn place(root: &StateRoot) -> Place {
    Place { base: glance::head(root.path()), ..Place::default() }
}
