//! `harness status --watch`: prints the view again whenever something changed.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use harness::{
    clock::{Clock, SystemClock},
    home::Home,
    view::WorkerCondition,
};
use harness_core::{Timestamp, format::FILE_NAME};

use super::page;
use crate::{
    exit::ExitCode,
    failure::{Failure, Kind, Result},
    invocation::Invocation,
    log_file::LOG,
    log_line::Zone,
    paint::one_line,
    root::StateRoot,
    view_sources::{Surroundings, ViewSources, ahead},
    watch::{Watch, Woken},
};

/// The interval at which a view is drawn again, and the host is asked again, while something is
/// active.
const TICK: Duration = Duration::from_secs(1);

/// The way in which a view is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It replaces the last one, on a terminal.
    Live,
    /// It follows below the last one.
    Plain,
    /// Each view is one line of JSON.
    Json,
}

struct Monitor {
    mode: Mode,
    /// The last printed text, and the time at which it was built.
    printed: Option<(String, Timestamp)>,
}

/// Whether something is active that changes no file meanwhile.
#[derive(PartialEq, Eq)]
enum Pace {
    Ticking,
    Still,
}

/// Shows the view until it is interrupted, or until nothing reads the output any more.
pub(super) fn watch(invocation: &mut Invocation, root: &StateRoot, mode: Mode) -> Result<ExitCode> {
    // The database contains the runs. During a write, they are in its log first.
    let log_of_database = format!("{}-wal", Home::DATABASE);
    let names = [FILE_NAME, LOG, Home::DATABASE, &log_of_database, Home::GATE];
    let mut watch = Watch::on_ledger(root, &names);
    let mut monitor = Monitor { mode, printed: None };
    let mut sources = ViewSources::read(invocation, root);
    loop {
        let pace = match &sources {
            Ok(sources) => monitor.show(invocation, root, sources),
            Err(failure) => Err(failure.clone()),
        };
        let pace = match pace {
            Ok(pace) => pace,
            // The reader is gone, or the disk is full.
            Err(failure) if failure.kind == Kind::OutputClosed => return Err(failure),
            Err(failure) => {
                monitor.complain(invocation, &failure)?;
                Pace::Still
            }
        };
        invocation.out.finish()?;
        while !monitor.has_news(invocation, root, &mut watch, &pace, &mut sources)? {}
    }
}

impl Monitor {
    /// Waits until a file changes or a tick is over. Returns whether there is something to show.
    fn has_news<'a>(
        &self,
        invocation: &Invocation,
        root: &'a StateRoot,
        watch: &mut Watch,
        pace: &Pace,
        sources: &mut Result<ViewSources<'a>>,
    ) -> Result<bool> {
        let tick = (*pace == Pace::Ticking).then_some(TICK);
        if watch.wait(tick)? == Woken::Changed {
            *sources = ViewSources::read(invocation, root);
            return Ok(true);
        }
        // No file contains the questions.
        let Ok(sources) = sources else { return Ok(false) };
        let now = Surroundings::read(invocation, root);
        let is_news = now != sources.surroundings;
        sources.surroundings = now;
        Ok(is_news || self.mode == Mode::Live)
    }

    fn show(
        &mut self,
        invocation: &mut Invocation,
        root: &StateRoot,
        sources: &ViewSources<'_>,
    ) -> Result<Pace> {
        let ledger = sources.ledger()?;
        let record = sources.record(&ledger);
        let now = SystemClock.now();
        let ahead = ahead(invocation, root, &ledger.head.session_config);
        let view = sources.view(&ledger, &record, ahead, now);
        let goes_on = view.counts.in_progress > 0
            || view.workers.iter().any(|worker| worker.state != WorkerCondition::Gone)
            || view.runs.iter().any(|run| run.driven);
        let (paint, zone) = (invocation.out.paint(), Zone::of(&invocation.out));
        match self.mode {
            Mode::Json => invocation.out.streamed_line(|out| view.write_json(out))?,
            Mode::Live => draw(invocation, |rows| page::text(&view, paint, zone, Some(rows)))?,
            Mode::Plain => {
                // A touched file or a later time is no change.
                let same = self.printed.as_ref().is_some_and(|(printed, then)| {
                    let then = sources.view(&ledger, &record, ahead, *then);
                    page::text(&then, paint, zone, None) == *printed
                });
                if !same {
                    let text = page::text(&view, paint, zone, None);
                    let gap = if self.printed.is_some() { "\n" } else { "" };
                    invocation.out.raw(format!("{gap}{text}").as_bytes())?;
                    self.printed = Some((text, now));
                }
            }
        }
        Ok(if goes_on { Pace::Ticking } else { Pace::Still })
    }

    fn complain(&self, invocation: &mut Invocation, failure: &Failure) -> Result<()> {
        let paint = invocation.out.paint();
        match self.mode {
            Mode::Live => {
                let error = one_line(&failure.error);
                draw(invocation, |_| format!("{} {error}\n", paint.error("Error:")))
            }
            Mode::Plain | Mode::Json => {
                _ = writeln!(io::stderr(), "Error: {}", crate::paint::visible(&failure.error));
                Ok(())
            }
        }
    }
}

/// Draws one frame: each line over the old one, then the rest of the old frame is cleared. Nothing
/// is cleared before, to avoid flicker. Lines are cut at the edge while it is drawn.
fn draw(invocation: &mut Invocation, text: impl FnOnce(usize) -> String) -> Result<()> {
    let rows =
        rustix::termios::tcgetwinsize(rustix::stdio::stdout()).map_or(24, |size| size.ws_row);
    let mut frame = String::from("\x1b[H\x1b[?7l");
    for line in text(usize::from(rows).saturating_sub(1)).lines() {
        frame += line;
        frame += "\x1b[K\n";
    }
    frame += "\x1b[J\x1b[?7h";
    invocation.out.raw(frame.as_bytes())
}
