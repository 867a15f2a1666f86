//! `harness ping`

use harness::host::client::ANSWER_WITHIN;
use serde_json::json;

use super::Invocation;
use crate::{exit::ExitCode, failure::Result};

/// Ask whether a harness is running here
///
/// Prints `ok` if one answers on the socket of this ledger, which `harness run` serves while it works.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness ping")]
pub(crate) struct Args {}

pub(crate) fn run(invocation: &mut Invocation, _: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.ask_running(&root, json!({ "command": "ping" }), Some(ANSWER_WITHIN))?;
    invocation.out.line("ok")?;
    Ok(ExitCode::Done)
}
