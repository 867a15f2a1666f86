//! `harness ping`

use serde_json::json;

use super::Invocation;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    host::{Asked, Patience, warn_of_version},
};

/// Ask whether a harness answers here
///
/// Prints `ok`. Who answers is the daemon, which is started if there is none, or `harness run` while it
/// works.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness ping")]
pub(crate) struct Args {}

pub(crate) fn run(invocation: &mut Invocation, _: Args) -> Result<ExitCode> {
    let root = invocation.root_or_new()?;
    let ping = json!({ "command": "ping" });
    match invocation.ask_or_start(&root, &ping, &Patience::Short)? {
        Asked::Answered(answer) => warn_of_version(&answer),
        Asked::Nobody => {
            return Err(Failure::error(
                "nobody is asked: HARNESS_DAEMON is off, or a sandbox forbids it",
            ));
        }
    }
    invocation.out.line("ok")?;
    Ok(ExitCode::Done)
}
