//! `harness workers`

use harness::{
    clock::{Clock, SystemClock},
    store::postgres::FleetWorker,
};
use harness_core::role::Operation;
use serde_json::{Value, json};

use super::status;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::one_line,
    root::StateRoot,
    view_sources::ViewSources,
};

/// List the workers and what they do
///
/// Lists the workers of all processes on this ledger: those of `harness run` and `harness work`, and
/// everyone else who holds a task. A worker is `working` on a task, `landing` its result, `waiting` for
/// the work of others, `idle`, or `gone`: its process has ended, or its lease ran out. The task of a
/// worker that is gone is recovered by the next one. With a ledger in a database the workers of all
/// machines are listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness workers
  harness workers drain build-2           # all workers of that machine finish their task and leave
  harness workers --json | jq -r '.workers[] | select(.state == \"gone\") | .id'")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Let the workers of a machine, or one worker, finish their task and leave
    ///
    /// It reaches every machine whose ledger is in the same database, within some seconds.
    #[command(after_help = "\
Examples:
  harness workers drain build-2
  harness workers drain worker-043a718774c5.1 --json")]
    Drain {
        /// The name of a machine, or the id of a worker, as `harness workers` lists them
        #[arg(value_name = "HOST|WORKER")]
        whom: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    if let Some(Command::Drain { whom, json }) = &args.command {
        return drain(invocation, &root, whom, *json);
    }
    let sources = ViewSources::read(invocation, &root)?;
    let ledger = sources.ledger()?;
    let record = sources.record(&ledger);
    let view = sources.view(&ledger, &record, None, SystemClock.now());
    let database = root.backing().open().ok().flatten();
    if args.json {
        let mut workers = json!(view.workers);
        if let Some(registered) = database.and_then(|database| database.workers().ok()) {
            add_registration(&mut workers, &registered);
        }
        invocation.out.document(&json!({ "workers": workers }))?;
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
        let host = match (&database, &worker.host) {
            (Some(_), Some(host)) => format!(" (on {})", one_line(host)),
            _ => String::new(),
        };
        invocation.out.line(format_args!("{line}{labels}{host}"))?;
    }
    Ok(ExitCode::Done)
}

/// Adds what only the list in a database has.
fn add_registration(workers: &mut Value, registered: &[FleetWorker]) {
    for worker in workers.as_array_mut().into_iter().flatten() {
        let is_same = |row: &&FleetWorker| worker["id"] == row.id.as_str();
        if let Some(row) = registered.iter().find(is_same) {
            worker["boot"] = json!(row.boot);
            worker["harness_version"] = json!(row.version);
            worker["seen_at"] = json!(row.seen_at);
            worker["draining"] = json!(row.draining);
        }
    }
}

fn drain(
    invocation: &mut Invocation,
    root: &StateRoot,
    whom: &str,
    json: bool,
) -> Result<ExitCode> {
    invocation.permit(root, Operation::Drain)?;
    let Some(database) = root.backing().open()? else {
        return Err(Failure::error("workers of this machine alone are not registered elsewhere")
            .hint(
                "end their process with Ctrl-C; `harness pause` stops claiming for all of them",
            ));
    };
    let asked = database.drain(whom)?;
    if asked == 0 {
        let what = format!("no machine and no worker is called {whom:?}");
        return Err(Failure::error(what).hint("`harness workers` lists them"));
    }
    if json {
        invocation.out.document(&json!({ "asked": asked }))?;
    } else {
        let workers = if asked == 1 { "1 worker leaves" } else { "workers leave" };
        let count = if asked == 1 { String::new() } else { format!("{asked} ") };
        invocation.out.line(format_args!("{count}{workers} after the task in progress"))?;
    }
    Ok(ExitCode::Done)
}
