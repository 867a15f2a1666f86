//! `harness status`

mod runs;

use std::{
    collections::HashSet,
    fmt::Write as _,
    io::{self, Write as _},
    time::Duration,
};

use harness::clock::{Clock, SystemClock};
use harness_core::{
    Stats, TaskId, Timestamp,
    format::{self, FILE_NAME, Glance},
    ledger::Alert,
    role::Operation,
    task::Status,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::runs::RunSeen;
use crate::{
    exit::ExitCode,
    failure::{Failure, Kind, Result},
    invocation::Invocation,
    log_file::{self, LOG},
    paint::{Paint, one_line},
    root::StateRoot,
    task_line::{Outlook, TaskLine, style},
    watch::Watch,
};

const LOG_LINES: usize = 5;
/// How often a view is drawn anew while leases run down.
const TICK: Duration = Duration::from_secs(1);

/// Show the progress of the work
///
/// Only reads files: it never waits for a lock and repairs nothing, so you can call it at any time.
/// `blocked` counts the pending tasks that depend, directly or not, on one that failed for good.
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
        return watch(invocation, &root, &args);
    }
    let files = Files::look(&root)?;
    let seen = files.seen()?;
    if args.json {
        invocation.out.json(&seen.document(&seen.ledger.compact())?)?;
    } else {
        let text = seen.text(SystemClock.now(), invocation.out.paint(), None);
        invocation.out.raw(text.as_bytes())?;
    }
    // The process ends here: to give the memory of ten thousand tasks back takes time that nobody
    // has anything of.
    std::mem::forget(seen);
    std::mem::forget(files);
    Ok(ExitCode::Done)
}

/// By the host that answers, else in the files.
fn acknowledge(invocation: &Invocation, root: &StateRoot) -> Result<()> {
    invocation.permit(root, Operation::Acknowledge)?;
    invocation.with_client(root, |client| client.acknowledge())
}

/// The text, in at most `rows` lines.
pub(crate) fn text(invocation: &Invocation, rows: usize) -> Result<String> {
    let files = Files::look(&invocation.root()?)?;
    Ok(files.seen()?.text(SystemClock.now(), Paint::Plain, Some(rows)))
}

/// The files at one moment.
struct Files {
    root: String,
    bytes: Vec<u8>,
    log: Vec<String>,
    runs: Vec<RunSeen>,
}

/// What they say.
struct Seen<'a> {
    files: &'a Files,
    ledger: Glance<'a>,
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    counts: Counts,
    tasks: &'a RawValue,
    log: &'a [String],
    session_count: u64,
    last_session: Option<Timestamp>,
    workers: Vec<&'a str>,
    runs: &'a [RunSeen],
    alerts: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    time: Timestamp,
    task: Option<&'a TaskId>,
    message: &'a str,
}

#[derive(Serialize)]
struct Counts {
    total: usize,
    completed: usize,
    failed: usize,
    pending: usize,
    in_progress: usize,
    blocked: usize,
}

impl Files {
    fn look(root: &StateRoot) -> Result<Self> {
        let bytes = harness::store::look_bytes(root.path())?;
        let log = log_file::last_lines(root.path(), LOG_LINES)?;
        let runs = runs::look(root);
        Ok(Self { root: root.path().display().to_string(), bytes, log, runs })
    }

    fn seen(&self) -> Result<Seen<'_>> {
        let ledger = format::glance(&self.bytes).map_err(harness::store::StoreError::Format)?;
        Ok(Seen { files: self, ledger })
    }
}

impl Seen<'_> {
    /// `compact` is the ledger's.
    fn document<'a>(&'a self, compact: &'a str) -> Result<Document<'a>> {
        #[derive(Deserialize)]
        struct File<'a> {
            #[serde(borrow)]
            tasks: &'a RawValue,
        }
        // What the ledger says of its tasks, to the letter: fields that we do not know too.
        let file: File<'_> = serde_json::from_str(compact)?;
        let stats = self.ledger.stats;
        Ok(Document {
            version: 1,
            counts: Counts {
                total: stats.total,
                completed: stats.completed,
                failed: stats.failed,
                pending: stats.pending,
                in_progress: stats.in_progress,
                blocked: stats.blocked,
            },
            tasks: file.tasks,
            log: &self.files.log,
            session_count: self.ledger.head.session_count,
            last_session: self.ledger.head.last_session,
            workers: self.workers(),
            runs: &self.files.runs,
            alerts: self.ledger.head.alerts.iter().map(Shown::of).collect(),
        })
    }

    /// At most `rows` lines, where given: then the tasks that nobody works on are left out first.
    fn text(&self, now: Timestamp, paint: Paint, rows: Option<usize>) -> String {
        let Glance { head, tasks, stats, .. } = &self.ledger;
        let log = &self.files.log;
        let mut text = String::with_capacity(128 * tasks.len() + 1024);
        let mut line = |line: &dyn std::fmt::Display| {
            // Writing into a string does not fail.
            _ = writeln!(text, "{line}");
        };
        let root = paint.heading(one_line(&self.files.root));
        match &head.goal {
            Some(goal) => line(&format_args!("{root} — {}", one_line(goal))),
            None => line(&root),
        }
        line(&CountsLine { stats: *stats, paint });
        let sessions = head.session_config.max_sessions;
        match head.last_session {
            Some(last) => {
                line(&format_args!("session {} of {sessions}, last {last}", head.session_count));
            }
            None => line(&format_args!("session {} of {sessions}", head.session_count)),
        }
        let runs: Vec<String> =
            self.files.runs.iter().filter_map(|run| run.line(now, paint)).collect();
        runs.iter().for_each(|run| line(run));
        let alerts = alert_lines(&head.alerts, paint);
        alerts.iter().for_each(|alert| line(alert));
        let around =
            3 + runs.len() + alerts.len() + 1 + if log.is_empty() { 0 } else { 1 + log.len() };
        let shown = rows.and_then(|rows| self.fitting(rows.saturating_sub(around)));
        if !tasks.is_empty() {
            line(&"");
        }
        for (at, task) in tasks.iter().enumerate() {
            if shown.as_ref().is_none_or(|shown| shown.contains(&at)) {
                line(&TaskLine { task, now, paint });
            }
        }
        if let Some(shown) = &shown {
            let more = tasks.len() - shown.len();
            line(&paint.faint(format_args!("… {more} more tasks")));
        }
        if !log.is_empty() {
            line(&"");
        }
        for entry in log {
            line(&crate::log_line::Painted { line: entry, paint });
        }
        text
    }

    /// Who holds a claim, each once.
    fn workers(&self) -> Vec<&str> {
        let claimed = self.ledger.tasks.iter().filter(|t| t.status == Status::InProgress);
        let mut workers: Vec<&str> =
            claimed.filter_map(|t| t.claim.as_ref()?.claimed_by.as_deref()).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    /// The positions of the tasks to show where not all fit, in `rows` lines with one for the rest.
    fn fitting(&self, rows: usize) -> Option<HashSet<usize>> {
        let tasks = &self.ledger.tasks;
        if tasks.len() <= rows {
            return None;
        }
        let interest = |at: &usize| match tasks[*at].status {
            Status::InProgress => 0,
            Status::Failed => 1,
            Status::Pending => 2,
            Status::Completed => 3,
        };
        let mut shown: Vec<usize> = (0..tasks.len()).collect();
        shown.sort_by_key(interest);
        Some(shown.into_iter().take(rows.saturating_sub(1)).collect())
    }
}

impl<'a> Shown<'a> {
    fn of(alert: &'a Alert) -> Self {
        Self { time: alert.time, task: alert.task.as_ref(), message: &alert.message }
    }
}

/// What a person has to look at, and how to say that it was done.
pub(crate) fn alert_lines(alerts: &[Alert], paint: Paint) -> Vec<String> {
    let yellow = style(Status::Pending, Outlook::Blocked);
    let mut lines: Vec<String> = alerts
        .iter()
        .map(|Alert { time, task, message }| {
            let task = task.as_ref().map(|task| format!("[{task}] ")).unwrap_or_default();
            let alert = format!("ALERT {time} {task}{}", one_line(message));
            paint.style(yellow, alert).to_string()
        })
        .collect();
    if !lines.is_empty() {
        lines.push("after you have reviewed it: harness status --ack".to_owned());
    }
    lines
}

struct CountsLine {
    stats: Stats,
    paint: Paint,
}

impl std::fmt::Display for CountsLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stats, paint } = self;
        let tasks = if stats.total == 1 { "task" } else { "tasks" };
        write!(f, "{} {tasks}: ", stats.total)?;
        let told = [
            (stats.completed, Status::Completed, "completed"),
            (stats.in_progress, Status::InProgress, "in progress"),
            (stats.pending, Status::Pending, "pending"),
            (stats.failed, Status::Failed, "failed"),
        ];
        for (n, (count, status, name)) in told.into_iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            let counted = format_args!("{count} {name}");
            match count {
                0 => write!(f, "{comma}{counted}")?,
                _ => write!(f, "{comma}{}", paint.style(style(status, Outlook::Open), counted))?,
            }
            if status == Status::Pending && stats.blocked > 0 {
                let yellow = style(Status::Pending, Outlook::Blocked);
                let blocked = format_args!("{} blocked", stats.blocked);
                write!(f, " ({})", paint.style(yellow, blocked))?;
            }
        }
        Ok(())
    }
}

/// Ends when it is interrupted, or when nobody reads any more.
fn watch(invocation: &mut Invocation, root: &StateRoot, args: &Args) -> Result<ExitCode> {
    let mut watch = Watch::on(root.path(), &[FILE_NAME, LOG]);
    let live = invocation.out.is_terminal() && !args.json && !invocation.plain;
    let mut files = Files::look(root);
    let mut printed = None;
    loop {
        let seen = files.as_ref().map_err(Failure::clone).and_then(Files::seen);
        match &seen {
            // A reader that went away, or a disk that is full.
            Err(failure) if failure.kind == Kind::OutputClosed => return Err(failure.clone()),
            _ if live => draw(invocation, &seen)?,
            Ok(seen) if args.json => {
                invocation.out.json_line(&seen.document(&seen.ledger.compact())?)?
            }
            Ok(seen) => {
                let text = seen.text(SystemClock.now(), invocation.out.paint(), None);
                // A touched file is no change, and a blank line keeps two views apart.
                if printed.as_ref() != Some(&text) {
                    let gap = if printed.is_some() { "\n" } else { "" };
                    invocation.out.raw(format!("{gap}{text}").as_bytes())?;
                    printed = Some(text);
                }
            }
            Err(failure) => {
                _ = writeln!(io::stderr(), "Error: {}", crate::paint::visible(&failure.error));
            }
        }
        invocation.out.finish()?;
        let leased = |seen: &Seen<'_>| seen.ledger.stats.in_progress > 0;
        let tick = (live && seen.as_ref().is_ok_and(leased)).then_some(TICK);
        if watch.wait(tick)? == crate::watch::Woken::Changed {
            files = Files::look(root);
        }
    }
}

/// One frame: each line over the old one, then what is left of the old one cleared. Nothing is
/// cleared before, so that it does not flicker; lines are cut at the edge while it is drawn.
fn draw(invocation: &mut Invocation, seen: &Result<Seen<'_>, Failure>) -> Result<()> {
    let rows =
        rustix::termios::tcgetwinsize(rustix::stdio::stdout()).map_or(24, |size| size.ws_row);
    let paint = invocation.out.paint();
    let text = match seen {
        Ok(seen) => seen.text(SystemClock.now(), paint, Some(usize::from(rows).saturating_sub(1))),
        Err(failure) => format!("{} {}\n", paint.error("Error:"), one_line(&failure.error)),
    };
    let mut frame = String::from("\x1b[H\x1b[?7l");
    for line in text.lines() {
        frame += line;
        frame += "\x1b[K\n";
    }
    frame += "\x1b[J\x1b[?7h";
    invocation.out.raw(frame.as_bytes())
}
