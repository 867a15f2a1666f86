//! `harness task edit`

use harness::protocol::Request;
use harness_core::TaskId;

use super::{super::fields::Fields, done};
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    store::task_id,
    trust::Trust,
    would_run::WouldRun,
};

/// Edit a task
///
/// Takes the flags of `harness add`; an empty value clears a field.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task edit task-002 --priority P0
  harness task edit task-002 --validate 'cargo test' --depends-on ''
  harness task edit task-002 --protected 'tests/**' --protected ci.sh")]
pub(super) struct Args {
    /// The task
    #[arg(value_parser = task_id)]
    id: TaskId,
    /// A new title
    #[arg(long)]
    title: Option<String>,
    #[command(flatten)]
    fields: Fields,
    /// Protect no files of its own any more
    #[arg(long, conflicts_with = "protected")]
    no_protected: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(invocation: &mut Invocation, mut args: Args) -> Result<ExitCode> {
    if args.no_protected {
        args.fields.protected = Some(Vec::new());
    }
    if args.title.is_none() && !args.fields.any() {
        return Err(
            Failure::usage("nothing to change").hint("`harness task edit --help` lists the fields")
        );
    }
    let edit = args.fields.edit(args.id, args.title)?;
    let made = WouldRun::of_edit(&edit);
    let ended = done(invocation, Request::TaskEdit(edit), "changed", args.json)?;
    Trust::grant_own(invocation, &invocation.root()?, &made);
    Ok(ended)
}
