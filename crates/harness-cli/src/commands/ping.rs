//! `harness ping`

use harness::protocol::{Answer, Request};

use crate::{
    client::warn_of_version,
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
};

/// Check whether a daemon or a run responds
///
/// Prints `ok`. The answer comes from `harness run` while it works, and otherwise from the daemon,
/// which is started if there is none.
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
                "cannot connect: HARNESS_DAEMON is off, or a sandbox forbids it",
            ));
        }
    }
    invocation.out.line("ok")?;
    Ok(ExitCode::Done)
}
