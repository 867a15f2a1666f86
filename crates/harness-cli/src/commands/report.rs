//! `harness report`

use clap::builder::styling::AnsiColor::{Green, Red, Yellow};
use harness::{
    clock::{Clock, SystemClock},
    view::{LandedEntry, ProjectReport, ReportInputs, Spending},
    workspace::Workspace,
};
use harness_core::{Ledger, TaskId, Timestamp};

use super::{rescue, status, why};
use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    paint::{coloured, one_line},
    render::{Cell, Out, Table},
    root::StateRoot,
    task_line::Span,
    view_sources::{Surroundings, whole_record},
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

/// The number of runs that the page lists.
const RUNS: usize = 10;

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let ledger = invocation.look(&root)?;
    let record = whole_record(root.path(), None);
    let surroundings = Surroundings::read(invocation, &root);
    let mut inputs = ReportInputs::new(&ledger, surroundings.of_task(&record));
    take_evidence(invocation, &root, &ledger, &mut inputs);
    let now = SystemClock.now();
    let report = ProjectReport::of(&inputs, now);
    if args.json {
        invocation.out.document(&report)?;
        return Ok(ExitCode::Done);
    }
    let out = &mut invocation.out;
    let paint = out.paint();
    let alerts = status::alert_lines(&report.alerts, paint);
    alerts.iter().try_for_each(|line| out.line(line))?;
    Page { report: &report, now }.print(out)?;
    Ok(ExitCode::Done)
}

/// Adds receipts, and the data of git: the latest rescue of each task, and results on no branch.
fn take_evidence(
    invocation: &Invocation,
    root: &StateRoot,
    ledger: &Ledger,
    inputs: &mut ReportInputs<'_>,
) {
    let receipts =
        ledger.tasks().filter_map(|task| Some((task.id.clone(), why::receipt_of(root, task)?)));
    inputs.receipts = receipts.collect();
    let Ok(git) = invocation.workspace(root) else { return };
    let rescues = git.rescues(None).unwrap_or_default();
    let name = |found: &harness::workspace::Rescue| {
        let name = rescue::short(found).to_owned();
        let task = TaskId::parse(name.split_once('/')?.0).ok()?;
        Some((task, name))
    };
    inputs.rescues = rescues.iter().filter_map(name).collect();
    let unmerged = git.landed().unwrap_or_default();
    inputs.unmerged = unmerged.iter().filter_map(|id| TaskId::parse(id).ok()).collect();
}

struct Page<'a> {
    report: &'a ProjectReport<'a>,
    now: Timestamp,
}

impl Page<'_> {
    fn print(&self, out: &mut Out) -> Result<()> {
        let report = self.report;
        heading(out, "Landed", report.landed.len())?;
        out.table(&landed(&report.landed))?;
        out.line("")?;
        self.failed(out)?;
        out.line("")?;
        self.waiting(out)?;
        out.line("")?;
        heading(out, "Still to do", report.open.len())?;
        if !report.open.is_empty() {
            out.line("  harness run")?;
        }
        self.runs(out)?;
        let spent = spent(&report.spending);
        if !spent.is_empty() {
            out.line("")?;
            out.line(format_args!("{} {}", out.paint().heading("Spent"), spent.join(", ")))?;
        }
        Ok(())
    }

    fn failed(&self, out: &mut Out) -> Result<()> {
        heading(out, "Failed", self.report.failed.len())?;
        for f in &self.report.failed {
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
            if let Some(transcript) = &f.transcript {
                out.line(format_args!("    agent: {}", one_line(transcript)))?;
            }
            out.line(format_args!("    next:  {}", f.next))?;
        }
        Ok(())
    }

    fn waiting(&self, out: &mut Out) -> Result<()> {
        let ProjectReport { waiting, questions, gate, .. } = self.report;
        heading(out, "Waits for you", waiting.len() + questions.len())?;
        let paint = out.paint();
        for card in questions {
            for line in status::question_lines(card, paint) {
                out.line(format_args!("  {line}"))?;
            }
        }
        let mut table = Table::default();
        for w in waiting {
            let id = Cell::styled(coloured(Yellow), format!("  {}", w.id));
            table.row([id, w.why.as_str().into(), w.next.to_string().into()]);
        }
        out.table(&table)?;
        if let Some(gate) = gate {
            let text = format!("the gate of {} is closed: {}", gate.phase, gate.why);
            out.line(format_args!("  {}", paint.style(coloured(Yellow), one_line(&text))))?;
            for line in gate.last_lines() {
                out.line(format_args!("    | {}", one_line(line)))?;
            }
        }
        Ok(())
    }

    fn runs(&self, out: &mut Out) -> Result<()> {
        let runs = &self.report.runs;
        if runs.is_empty() {
            return Ok(());
        }
        out.line("")?;
        heading(out, "Runs", runs.len())?;
        for run in runs.iter().take(RUNS) {
            let line = status::runs::line(run, self.now, out.paint());
            line.map_or(Ok(()), |line| out.line(format_args!("  {line}")))?;
        }
        match runs.len().saturating_sub(RUNS) {
            0 => Ok(()),
            more => out.line(format_args!("  … {more} more: harness runs list")),
        }
    }
}

fn heading(out: &mut Out, title: &str, count: usize) -> Result<()> {
    let paint = out.paint();
    out.line(format_args!("{} {}", paint.heading(title), paint.faint(format!("({count})"))))
}

fn landed(entries: &[LandedEntry]) -> Table {
    let mut table = Table::default();
    for l in entries {
        let commit = l.commit.as_deref().and_then(|c| c.get(..7)).unwrap_or("-");
        let took = l.duration_ms.map_or_else(|| "-".to_owned(), took);
        let check = l.command.as_deref().unwrap_or("no check");
        table.row([
            Cell::styled(coloured(Green), format!("  {}", l.id)),
            commit.into(),
            took.into(),
            cut(check).into(),
            cut(&l.title).into(),
            Cell::from(spent(&l.spending).join(", ")),
            Cell::styled(coloured(Yellow), l.flags.join("; ")),
        ]);
    }
    table
}

/// Returns cost, tokens and time, if there is any cost or token.
fn spent(spending: &Spending) -> Vec<String> {
    let cost = spending.cost_usd.map(|cost| format!("${cost:.2}"));
    let tokens = Some(spending.tokens()).filter(|tokens| *tokens > 0);
    let time = Some(spending.seconds).filter(|_| cost.is_some() || tokens.is_some());
    let parts = [
        cost,
        tokens.map(|tokens| format!("{tokens} tokens")),
        time.map(|seconds| Span(seconds).to_string()),
    ];
    parts.into_iter().flatten().collect()
}

fn took(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { Span(ms / 1000).to_string() }
}

/// Cuts a text to the width of its column.
fn cut(text: &str) -> String {
    const WIDTH: usize = 40;
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    text.chars().take(WIDTH - 1).chain(['…']).collect()
}
