//! `harness ping`

use harness::protocol::{Answer, Request};

use super::Invocation;
use crate::{
    client::warn_of_version,
    exit::ExitCode,
    failure::{Failure, Result},
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
    match invocation.with_client(&root, |client| client.ask_host(&Request::Ping))? {
        Some(Answer::Pong(pong)) => warn_of_version(&pong),
        Some(_) | None => {
            return Err(Failure::error(
                "nobody is asked: HARNESS_DAEMON is off, or a sandbox forbids it",
            ));
        }
    }
    invocation.out.line("ok")?;
    Ok(ExitCode::Done)
}
