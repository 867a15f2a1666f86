//! `harness shutdown`

use super::Invocation;
use crate::{exit::ExitCode, failure::Result};

/// End the daemon
///
/// It answers what it was asked, removes its socket and ends. Nothing is lost: the next command that
/// needs one starts another. Without a daemon there is nothing to do, which is no error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness shutdown")]
pub(crate) struct Args {}

pub(crate) fn run(invocation: &mut Invocation, _: Args) -> Result<ExitCode> {
    super::daemon::shut_down(invocation)
}
