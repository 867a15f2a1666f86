//! `harness abort`

use harness::client::Machines;
use harness_core::role::Operation;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Stop the active run, as Ctrl-C does
///
/// Its agent is stopped, and the next run can recover its task. A second abort stops the run at
/// once. With a ledger in a database the runs of all machines are stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness abort
  harness abort 'wrong branch'
  harness abort --here                    # the runs of other machines go on")]
pub(crate) struct Args {
    /// The reason, for the log
    reason: Option<String>,
    /// Stop only what runs on this machine
    #[arg(long)]
    here: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Abort)?;
    let mut options = invocation.client_options(&root)?;
    if args.here {
        options.machines = Machines::ThisOne;
    }
    invocation.with_options(&root, options, |client| client.abort(args.reason))?;
    Ok(ExitCode::Done)
}
