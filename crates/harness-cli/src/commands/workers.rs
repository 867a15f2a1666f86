//! `harness workers`

use harness::clock::{Clock, SystemClock};
use serde_json::json;

use super::status;
use crate::{
    exit::ExitCode, failure::Result, invocation::Invocation, paint::one_line,
    view_sources::ViewSources,
};

/// List the workers and what they do
///
/// Lists the workers of all processes on this ledger: those of `harness run` and `harness work`, and
/// everyone else who holds a task. A worker is `working` on a task, `landing` its result, `waiting` for
/// the work of others, `idle`, or `gone`: its process has ended, or its lease ran out. The task of a
/// worker that is gone is recovered by the next one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness workers
  harness workers --json | jq -r '.workers[] | select(.state == \"gone\") | .id'")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let sources = ViewSources::read(invocation, &root)?;
    let ledger = sources.ledger()?;
    let record = sources.record(&ledger);
    let view = sources.view(&ledger, &record, None, SystemClock.now());
    if args.json {
        invocation.out.document(&json!({ "workers": view.workers }))?;
        return Ok(ExitCode::Done);
    }
    if view.workers.is_empty() {
        eprintln!("no worker is here");
    }
    let paint = invocation.out.paint();
    for worker in &view.workers {
        let line = status::workers::line(worker, view.time, paint);
        let labels = match worker.labels.is_empty() {
            true => String::new(),
            false => format!(" [{}]", one_line(&worker.labels.join(", "))),
        };
        invocation.out.line(format_args!("{line}{labels}"))?;
    }
    Ok(ExitCode::Done)
}
