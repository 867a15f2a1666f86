//! `harness uninstall`

use super::{
    Invocation,
    install::{self, Target},
};
use crate::{exit::ExitCode, failure::Result};

/// Take what `harness install` wrote out of an agent's settings
///
/// All else in those files stays as it is, byte by byte; files and directories that hold nothing else
/// are removed, but a link is kept and what it leads to emptied. A page of the command that was edited
/// by hand is left alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness uninstall claude
  harness uninstall codex --user
  harness uninstall claude --dry-run")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    install::take_out(invocation, &args.target)
}
