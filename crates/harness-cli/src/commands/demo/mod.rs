//! `harness demo`: the real program in a repository of its own, with failures on the way.

mod crash;
mod ledger;
mod night;
mod stage;
mod workers;

use std::path::PathBuf;

use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
};
use stage::{Pace, Stage};

/// Watch it work: a night's work in a minute, with a failure, a kill -9 and a conflict
///
/// Everything happens in a temporary repository. Every line that starts with `$` is a command that
/// was really run. It needs no model, no API key and no network.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness demo
  harness demo --ledger    # two workers, and a kill -9 in the middle of a write
  harness demo --keep      # leave the repository there to look around")]
pub(crate) struct Args {
    /// Show only the ledger: two workers share it, and one is killed in the middle of a write
    #[arg(long)]
    ledger: bool,
    /// Keep the temporary repository
    #[arg(long)]
    keep: bool,
    /// Do not pause for the reader
    #[arg(long)]
    fast: bool,
    /// Act as the process that dies: for the demo itself
    #[arg(long, hide = true, value_name = "STEP")]
    die_at: Option<crash::Step>,
    #[arg(long, hide = true, requires = "die_at")]
    root: Option<PathBuf>,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    if let (Some(step), Some(root)) = (args.die_at, &args.root) {
        return crash::complete_and_die(root, step);
    }
    let pace = if args.fast { Pace::Fast } else { Pace::of_this_terminal() };
    let mut stage = Stage::build(&mut invocation.out, pace)?;
    let wrong = if args.ledger { ledger::play(&mut stage)? } else { night::play(&mut stage)? };
    match stage.end(args.keep)? {
        Some(place) => {
            let place = place.display();
            invocation.out.line(format_args!("\nLook around: cd {place} && harness log"))?;
        }
        None => invocation.out.line("\nYours: cd into a repository, then `harness init`")?,
    }
    match wrong {
        None => Ok(ExitCode::Done),
        Some(wrong) => Err(Failure::error(format!("the demo did not end as expected: {wrong}"))),
    }
}
