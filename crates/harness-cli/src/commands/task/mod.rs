//! `harness task …`: one file per subcommand.

mod graph;
mod list;
mod show;

use super::Invocation;
use crate::{exit::ExitCode, failure::Result};

/// Look at tasks and work on them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task list --ready
  harness task show task-003
  harness task graph")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Graph(graph::Args),
    List(list::Args),
    Show(show::Args),
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Graph(args) => graph::run(invocation, args),
        Command::List(args) => list::run(invocation, args),
        Command::Show(args) => show::run(invocation, args),
    }
}
