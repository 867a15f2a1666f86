//! `harness kick`

use harness_core::role::Operation;

use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
};

/// End a wait for a usage limit now
///
/// A run that waits for a usage limit asks its agent again at once. If a run was killed while it
/// waited, the wait is forgotten and `harness run --resume` goes on without it. With a ledger in a
/// database this ends the waits on all machines.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness kick
  harness kick && harness log -f")]
pub(crate) struct Args {}

pub(crate) fn run(invocation: &mut Invocation, _: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Kick)?;
    match invocation.with_client(&root, |client| client.kick())? {
        0 => Err(Failure::error("no run is waiting for a usage limit here")
            .hint("`harness status` shows the runs")),
        _ => {
            invocation.out.line("the wait has ended")?;
            Ok(ExitCode::Done)
        }
    }
}
