//! `harness abort`

use harness_core::role::Operation;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Stop the active run, as Ctrl-C does
///
/// Its agent is stopped, and the next run can recover its task. A second abort stops the run at
/// once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness abort
  harness abort 'wrong branch'")]
pub(crate) struct Args {
    /// The reason, for the log
    reason: Option<String>,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Abort)?;
    invocation.with_client(&root, |client| client.abort(args.reason))?;
    Ok(ExitCode::Done)
}
