//! `harness abort`

use harness_core::role::Operation;

use super::Invocation;
use crate::{exit::ExitCode, failure::Result};

/// Stop the run that works here, as Ctrl-C does
///
/// Its agent is stopped and its task can be recovered by the next run. Asked twice, it waits for
/// nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness abort
  harness abort 'wrong branch'")]
pub(crate) struct Args {
    /// Why
    reason: Option<String>,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Abort)?;
    invocation.with_client(&root, |client| client.abort(args.reason))?;
    Ok(ExitCode::Done)
}
