//! `harness report`

use std::path::PathBuf;

use clap::builder::styling::AnsiColor::{Green, Red, Yellow};
use harness::view::{LandedEntry, ProjectReport, Spending, TargetCard};
use harness_core::Timestamp;

use super::status;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::{coloured, one_line},
    render::{Cell, ColorWhen, Out, Table},
    root::StateRoot,
    task_line::Span,
    view_sources::report,
    web::pages,
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
  harness report --html report.html
  harness report --json | jq '.failed[].error'")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a page for a browser or a printer to this file, which needs nothing else
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
}

/// The number of runs that the page lists.
const RUNS: usize = 10;

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let ledger = invocation.look(&root)?;
    // The report borrows from the files, and the output belongs to the invocation.
    let mut out =
        std::mem::replace(&mut invocation.out, Out::new(ColorWhen::Never, &invocation.env));
    let printed = report(invocation, &root, &ledger, |report, now| {
        print(&mut out, &args, &root, report, now)
    });
    invocation.out = out;
    printed.map(|()| ExitCode::Done)
}

fn print(
    out: &mut Out,
    args: &Args,
    root: &StateRoot,
    report: &ProjectReport<'_>,
    now: Timestamp,
) -> Result<()> {
    if let Some(path) = &args.html {
        let text = pages::report::file(report, root.name(), now);
        return std::fs::write(path, text).map_err(|why| Failure::file("write", path, &why));
    }
    if args.json {
        return out.document(report);
    }
    let paint = out.paint();
    let alerts = status::alert_lines(&report.alerts, paint);
    alerts.iter().try_for_each(|line| out.line(line))?;
    Page { report, now }.print(out)
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
        self.workers(out)?;
        self.runs(out)?;
        let spent = spent(&report.spending);
        if !spent.is_empty() {
            out.line("")?;
            out.line(format_args!("{} {}", out.paint().heading("Spent"), spent.join(", ")))?;
        }
        for opened in &report.pull_requests {
            out.line("")?;
            let place = opened.url.as_deref().unwrap_or(&opened.branch);
            out.line(format_args!(
                "{} {} (for {})",
                out.paint().heading("Pull request"),
                one_line(place),
                one_line(&opened.target)
            ))?;
        }
        if let Some(hint) = report.target.as_ref().and_then(TargetCard::hint) {
            out.line("")?;
            out.line(out.paint().style(coloured(Yellow), hint))?;
        }
        Ok(())
    }

    /// Prints what each of several workers did.
    fn workers(&self, out: &mut Out) -> Result<()> {
        let workers = &self.report.workers;
        if workers.len() < 2 {
            return Ok(());
        }
        out.line("")?;
        heading(out, "Workers", workers.len())?;
        let mut table = Table::default();
        for share in workers {
            let now = match (share.state, &share.task_id) {
                (Some(state), Some(task)) => format!("{state}: {task}"),
                (Some(state), None) => state.to_owned(),
                (None, _) => String::new(),
            };
            let cost = share.cost_usd.map(|cost| format!("${cost:.2}")).unwrap_or_default();
            table.row([
                Cell::from(format!("  {}", share.id)),
                format!("{} landed", share.landed).into(),
                Span(share.seconds).to_string().into(),
                cost.into(),
                now.into(),
            ]);
        }
        out.table(&table)
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
