//! `harness report`

use std::collections::{HashMap, HashSet};

use harness::{
    clock::{Clock, SystemClock},
    workspace::{LANDED, Workspace},
};
use harness_core::{
    Flag, Ledger, Receipt, Standing, Stats, Task, TaskId, Timestamp, check::Baseline, task::Status,
};
use serde::Serialize;
use serde_json::json;

use super::{rescue, status, why};
use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    onward,
    paint::{coloured, one_line},
    render::{Cell, Out, Table},
    root::StateRoot,
    task_line::Span,
};

/// Summarise results: what landed, what failed, what waits for you
///
/// Lists what landed, with its commit and the check that passed; what failed and why, with the
/// place where its work was saved; and what only a person can resolve. Each entry names the command
/// to go on with.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness report
  harness report --json | jq '.failed[].error'")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Landed {
    id: TaskId,
    title: String,
    commit: Option<String>,
    command: Option<String>,
    duration_ms: Option<u64>,
    attempts: u32,
    completed_at: Option<Timestamp>,
    /// What a person should know before trusting it.
    flags: Vec<String>,
    next: String,
}

#[derive(Serialize)]
struct Failed {
    id: TaskId,
    title: String,
    error: Option<String>,
    attempts: u32,
    max_attempts: u32,
    for_good: bool,
    rescue: Option<String>,
    next: String,
}

#[derive(Serialize)]
struct Waiting {
    id: TaskId,
    title: String,
    why: String,
    next: String,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let ledger = invocation.look(&root)?;
    let page = Page::of(invocation, &root, &ledger);
    if args.json {
        let stats = Stats::of(&ledger);
        invocation.out.document(&json!({
            "counts": { "total": stats.total, "completed": stats.completed,
                "failed": stats.failed, "pending": stats.pending,
                "in_progress": stats.in_progress, "blocked": stats.blocked },
            "landed": page.landed, "failed": page.failed, "waiting": page.waiting,
            "open": page.open, "cost_usd": null, "alerts": alerts(&ledger),
        }))?;
    } else {
        let lines = status::alert_lines(&ledger.head().alerts, invocation.out.paint());
        lines.iter().try_for_each(|line| invocation.out.line(line))?;
        page.print(&mut invocation.out)?;
    }
    Ok(ExitCode::Done)
}

fn alerts(ledger: &Ledger) -> Vec<serde_json::Value> {
    let alerts = ledger.head().alerts.iter();
    alerts.map(|a| json!({ "time": a.time, "task": a.task, "message": a.message })).collect()
}

struct Page {
    landed: Vec<Landed>,
    failed: Vec<Failed>,
    waiting: Vec<Waiting>,
    /// What the next session goes on with.
    open: Vec<TaskId>,
}

impl Page {
    fn of(invocation: &Invocation, root: &StateRoot, ledger: &Ledger) -> Self {
        let now = SystemClock.now();
        let rescues = rescues(invocation, root);
        let kept = invocation.workspace(root).ok().and_then(|git| git.landed().ok());
        let kept: HashSet<_> = kept.unwrap_or_default().into_iter().collect();
        let mut page =
            Self { landed: Vec::new(), failed: Vec::new(), waiting: Vec::new(), open: Vec::new() };
        for task in ledger.tasks() {
            let standing = Standing::of(ledger, task);
            let next = onward::command(task, &standing, now);
            match task.status() {
                Status::Completed => {
                    let receipt = why::receipt_of(root, task);
                    let mut landed = landed(task, receipt.as_ref(), next);
                    if kept.contains(task.id.as_str()) {
                        landed.flags.push(format!("on no branch, kept by {LANDED}{}", task.id));
                    }
                    page.landed.push(landed);
                }
                Status::Failed => {
                    let rescue = rescues.get(task.id.as_str()).cloned();
                    page.failed.push(failed(task, rescue, next));
                    if task.retryable() {
                        page.open.push(task.id.clone());
                    }
                }
                Status::Pending | Status::InProgress => {
                    match onward::waits_for_person(task, &standing, now) {
                        Some(why) => {
                            let (id, title) = (task.id.clone(), task.title.clone());
                            page.waiting.push(Waiting { id, title, why, next });
                        }
                        None => page.open.push(task.id.clone()),
                    }
                }
            }
        }
        page.landed.sort_by_key(|l| l.completed_at);
        page
    }

    fn print(&self, out: &mut Out) -> Result<()> {
        use clap::builder::styling::AnsiColor::{Green, Red, Yellow};
        heading(out, "Landed", self.landed.len())?;
        let mut table = Table::default();
        for l in &self.landed {
            let commit = l.commit.as_deref().and_then(|c| c.get(..7)).unwrap_or("-");
            let took = l.duration_ms.map_or_else(|| "-".to_owned(), took);
            let check = l.command.as_deref().unwrap_or("no check");
            table.row([
                Cell::styled(coloured(Green), format!("  {}", l.id)),
                commit.into(),
                took.into(),
                cut(check).into(),
                cut(&l.title).into(),
                Cell::styled(coloured(Yellow), l.flags.join("; ")),
            ]);
        }
        out.table(&table)?;
        out.line("")?;
        heading(out, "Failed", self.failed.len())?;
        for f in &self.failed {
            let paint = out.paint();
            let last = if f.for_good { "for good" } else { "to be tried again" };
            let title = one_line(&f.title);
            let id = paint.style(coloured(Red), &f.id);
            let tries = format!("{}/{}", f.attempts, f.max_attempts);
            out.line(format_args!("  {id}  {title} ({tries}, {last})"))?;
            let error = f.error.as_deref().unwrap_or("nothing was recorded");
            out.line(format_args!("    {}", one_line(error)))?;
            if let Some(rescue) = &f.rescue {
                out.line(format_args!("    look:  harness rescue show {rescue}"))?;
            }
            out.line(format_args!("    next:  {}", f.next))?;
        }
        out.line("")?;
        heading(out, "Waits for you", self.waiting.len())?;
        let mut table = Table::default();
        for w in &self.waiting {
            let id = Cell::styled(coloured(Yellow), format!("  {}", w.id));
            table.row([id, w.why.as_str().into(), w.next.as_str().into()]);
        }
        out.table(&table)?;
        out.line("")?;
        heading(out, "Still to do", self.open.len())?;
        if !self.open.is_empty() {
            out.line("  harness run")?;
        }
        Ok(())
    }
}

fn heading(out: &mut Out, title: &str, count: usize) -> Result<()> {
    let paint = out.paint();
    out.line(format_args!("{} {}", paint.heading(title), paint.faint(format!("({count})"))))
}

fn landed(task: &Task, receipt: Option<&Receipt>, next: String) -> Landed {
    let check = receipt.and_then(|r| r.check.as_ref());
    let mut flags = Vec::new();
    match receipt {
        None => {
            flags.push("no receipt".to_owned());
            flags.extend(task.flags.iter().map(ToString::to_string));
        }
        Some(receipt) => {
            if receipt.check.is_none() {
                flags.push(format!("on the word of {}", receipt.worker));
            }
            if receipt.baseline == Some(Baseline::Green) {
                flags.push("its check passed before any work".to_owned());
            }
            flags.extend(receipt.of_no_commit());
            if !receipt.protected.is_empty() {
                flags.push(harness_core::protect::touched(&receipt.protected));
            }
            let told = [Flag::GreenBefore, Flag::Protected];
            let others = receipt.flags.iter().filter(|flag| !told.contains(flag));
            flags.extend(others.map(ToString::to_string));
        }
    }
    Landed {
        id: task.id.clone(),
        title: task.title.clone(),
        commit: receipt.and_then(|r| r.commit.as_ref()).map(ToString::to_string),
        command: check.map(|c| c.command.clone()),
        duration_ms: check.map(|c| c.duration_ms),
        attempts: task.attempts,
        completed_at: task.completed_at(),
        flags,
        next,
    }
}

fn failed(task: &Task, rescue: Option<String>, next: String) -> Failed {
    Failed {
        id: task.id.clone(),
        title: task.title.clone(),
        error: task.dependency_entry().or(task.error_log.last()).map(ToString::to_string),
        attempts: task.attempts,
        max_attempts: task.max_attempts,
        for_good: task.failed_for_good(),
        rescue,
        next,
    }
}

/// The latest rescue of each task; none without git.
fn rescues(invocation: &Invocation, root: &StateRoot) -> HashMap<String, String> {
    let found = invocation.workspace(root).ok().and_then(|w| w.rescues(None).ok());
    let name = |r: &harness::workspace::Rescue| {
        let name = rescue::short(r).to_owned();
        Some((name.split_once('/')?.0.to_owned(), name))
    };
    found.unwrap_or_default().iter().filter_map(name).collect()
}

fn took(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { Span(ms / 1000).to_string() }
}

/// A column stays a column.
fn cut(text: &str) -> String {
    const WIDTH: usize = 40;
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    text.chars().take(WIDTH - 1).chain(['…']).collect()
}
