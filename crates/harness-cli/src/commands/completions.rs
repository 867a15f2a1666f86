//! `harness completions SHELL`

use clap_complete::Shell;

use super::args;
use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness completions bash > ~/.local/share/bash-completion/completions/harness
  harness completions zsh > ~/.zfunc/_harness
  harness completions fish > ~/.config/fish/completions/harness.fish")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    // The generator panics when its writer fails. A write to memory does not fail.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "harness", &mut script);
    invocation.out.raw(&script)?;
    Ok(ExitCode::Done)
}
