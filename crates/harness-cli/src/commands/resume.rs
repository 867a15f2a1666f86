//! `harness resume`

use harness_core::role::Operation;

use super::pause::{Json, answer};
use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Start claiming tasks again after `harness pause`
///
/// A run that waits goes on at once. (`harness run --resume` is another thing: it continues a run
/// that has stopped.)
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness resume
  harness resume --json")]
pub(crate) struct Args {
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Pause)?;
    invocation.with_client(&root, |client| client.resume())?;
    answer(invocation, &root, args.json.then_some(Json), "claiming goes on")
}
