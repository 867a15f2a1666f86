//! `harness shutdown`

use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Stop the daemon
///
/// It answers pending requests, removes its socket and ends. Nothing is lost: the next command that
/// needs a daemon starts one. Without a daemon there is nothing to do, which is no error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness shutdown")]
pub(crate) struct Args {}

pub(crate) fn run(invocation: &mut Invocation, _: Args) -> Result<ExitCode> {
    super::daemon::shut_down(invocation)
}
