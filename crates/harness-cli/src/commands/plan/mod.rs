//! `harness plan …`: one file per subcommand.

mod check;
mod export;
pub(crate) mod import;
mod phase;
mod phases;
mod reset;
mod source;
mod template;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Import, check and export plans, and set phases
///
/// A plan is a JSON block in any text, such as an agent's answer; `harness plan template` explains
/// the format.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness plan template > plan.md
  harness plan check plan.md
  harness plan import plan.md
  harness plan export > plan.md
  harness plan phase Build --gate 'make test'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(check::Args),
    Export(export::Args),
    Import(import::Args),
    Phase(phase::Args),
    Phases(phases::Args),
    Reset(reset::Args),
    Template(template::Args),
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Check(args) => check::run(invocation, args),
        Command::Export(args) => export::run(invocation, args),
        Command::Import(args) => import::run(invocation, args),
        Command::Phase(args) => phase::run(invocation, args),
        Command::Phases(args) => phases::run(invocation, args),
        Command::Reset(args) => reset::run(invocation, args),
        Command::Template(args) => template::run(invocation, args),
    }
}
