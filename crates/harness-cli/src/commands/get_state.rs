//! `harness get-state`

use harness::host::wire;
use serde_json::json;

use super::Invocation;
use crate::{
    exit::ExitCode,
    failure::{Failure, Kind, Result},
    host::{Asked, Patience},
};

/// Print the goal and all tasks as JSON
///
/// The tasks by id, in the ledger's order, as the daemon knows them; it is started if there is none.
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
    let request = json!({ "command": "get_state" });
    let state = match invocation.ask_or_start(&root, &request, &Patience::Short)? {
        Asked::Answered(state) => state,
        Asked::Nobody => wire::state(&invocation.look(&root)?),
    };
    if state.is_null() {
        return Err(nothing());
    }
    invocation.out.json(&state)?;
    Ok(ExitCode::Done)
}

fn nothing() -> Failure {
    Failure::error("No active workflow").hint("make one with `harness init`")
}
