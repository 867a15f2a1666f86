//! `harness get-state`

use harness::host::wire;

use super::Invocation;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
};

/// Print the goal and all tasks as JSON
///
/// The tasks by id, in the ledger's order, as they are on the socket.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness get-state
  harness get-state | jq '.tasks[].status'")]
pub(crate) struct Args {}

pub(crate) fn run(invocation: &mut Invocation, _: Args) -> Result<ExitCode> {
    // What a host answers is what stands in the files, which can be read without it.
    let root = invocation.root().map_err(|failure| match failure.kind {
        crate::failure::Kind::Error => {
            Failure::error("No active workflow").hint("make one with `harness init`")
        }
        _ => failure,
    })?;
    let ledger = invocation.look(&root)?;
    invocation.out.json(&wire::state(&ledger))?;
    Ok(ExitCode::Done)
}
