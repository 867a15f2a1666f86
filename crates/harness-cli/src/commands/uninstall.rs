//! `harness uninstall`

use super::install::{self, Target};
use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Remove what `harness install` wrote from an agent's settings
///
/// The rest of those files stays unchanged, byte for byte. Files and directories with nothing else
/// in them are removed; a symbolic link stays, and the file that it points to is emptied. A page of
/// the /harness command that was edited by hand is left alone.
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
