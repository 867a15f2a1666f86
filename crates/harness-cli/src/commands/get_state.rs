//! `harness get-state`

use crate::{
    exit::ExitCode,
    failure::{Failure, Kind, Result},
    invocation::Invocation,
};

/// Print the goal and all tasks as JSON
///
/// Tasks are listed by id, in the order of the ledger, as the daemon has them. A daemon is started
/// if there is none.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness get-state
  harness get-state | jq '.tasks[].status'")]
pub(crate) struct Args {}

pub(crate) fn run(invocation: &mut Invocation, _: Args) -> Result<ExitCode> {
    let root = invocation.root().map_err(|failure| match failure.kind {
        Kind::Error => nothing(),
        _ => failure,
    })?;
    let state = invocation.with_client(&root, |client| client.get_state())?;
    invocation.out.json(&state.ok_or_else(nothing)?)?;
    Ok(ExitCode::Done)
}

fn nothing() -> Failure {
    Failure::error("No active workflow").hint("create one with `harness init`")
}
