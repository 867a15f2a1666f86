//! `harness status`

mod monitor;
mod page;
pub(crate) mod runs;
pub(crate) mod workers;

use harness::clock::{Clock, SystemClock};
use harness_core::role::Operation;

pub(crate) use self::page::{alert_lines, question_lines};
use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    log_line::Zone,
    paint::Paint,
    root::StateRoot,
    view_sources::{self, ViewSources},
};

/// Show the progress of the work
///
/// Reads the files, and asks a running host for open questions. It never waits for a lock and repairs
/// nothing, so you can call it at any time. `blocked` counts the pending tasks that depend, directly or not, on one that failed for good.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness status
  harness status --watch
  harness status --ack          # you have looked at what it warns of
  harness status --json | jq .counts")]
pub(crate) struct Args {
    /// Print JSON; with --watch, one document per line
    #[arg(long)]
    json: bool,
    /// Update the view whenever something changes, until interrupted
    #[arg(short, long)]
    watch: bool,
    /// Acknowledge the alerts, so that they are no longer shown, and accept a ledger that was
    /// edited while a run held it
    #[arg(long, conflicts_with_all = ["watch", "json"])]
    ack: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    if args.ack {
        acknowledge(invocation, &root)?;
    }
    if args.watch {
        let mode = match (args.json, invocation.out.is_terminal() && !invocation.plain) {
            (true, _) => monitor::Mode::Json,
            (false, true) => monitor::Mode::Live,
            (false, false) => monitor::Mode::Plain,
        };
        return monitor::watch(invocation, &root, mode);
    }
    let sources = ViewSources::read(invocation, &root)?;
    let ledger = sources.ledger()?;
    let record = sources.record(&ledger);
    let ahead = view_sources::ahead(invocation, &root, &ledger.head.session_config);
    let view = sources.view(&ledger, &record, ahead, SystemClock.now());
    if args.json {
        invocation.out.streamed_json(|out| view.write_json(out))?;
    } else {
        let text = page::text(&view, invocation.out.paint(), Zone::of(&invocation.out), None);
        invocation.out.raw(text.as_bytes())?;
    }
    drop(view);
    // The process ends here, and freeing ten thousand tasks one by one would only take time.
    std::mem::forget(ledger);
    std::mem::forget(sources);
    Ok(ExitCode::Done)
}

/// Acknowledges through the host that answers, or else in the files.
fn acknowledge(invocation: &Invocation, root: &StateRoot) -> Result<()> {
    invocation.permit(root, Operation::Acknowledge)?;
    invocation.with_client(root, |client| client.acknowledge())
}

/// Returns the text of the status, in at most `rows` lines.
pub(crate) fn text(invocation: &Invocation, rows: usize) -> Result<String> {
    let root = invocation.root()?;
    let sources = ViewSources::read(invocation, &root)?;
    let ledger = sources.ledger()?;
    let record = sources.record(&ledger);
    let ahead = view_sources::ahead(invocation, &root, &ledger.head.session_config);
    let view = sources.view(&ledger, &record, ahead, SystemClock.now());
    Ok(page::text(&view, Paint::Plain, Zone::Utc, Some(rows)))
}
