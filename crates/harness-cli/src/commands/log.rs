//! `harness log`

mod agent;

use std::collections::VecDeque;

use harness_core::{
    Category, TaskId, Timestamp,
    log::{Kind, LogLine},
};
use serde::Serialize;

use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    log_file::{LOG, LogFile},
    log_line::{Painted, Zone},
    paint::warn,
    root::StateRoot,
    store::{not_found, task_id},
    watch::Watch,
};

/// Show the log: what happened, line by line
///
/// On a terminal the times are those of your time zone; the file, pipes and --json have UTC. Lines
/// that other programs wrote into harness-progress.txt are shown unchanged, unless a filter
/// excludes them.
///
/// With --agent: what an agent said and did instead, from its transcript. `>` is a tool call, `<` its
/// result, shortened.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness log -n 20
  harness log -f --errors
  harness log task-003 --session 2
  harness log --agent -f            # what the agent does now
  harness log --agent task-003      # the last attempt at a task
  harness log --json | jq -r 'select(.type == \"Completed\") | .task_id'")]
pub(crate) struct Args {
    /// Show the transcript of an agent as text
    #[arg(long, conflicts_with_all = ["errors", "task", "session", "json"])]
    agent: bool,
    /// Follow the log until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Only errors
    #[arg(long)]
    errors: bool,
    /// Only lines about this task; with --agent: a task, or the beginning of the id of a run [default:
    /// the running or last agent]
    #[arg(value_name = "ID", value_parser = task_id)]
    id: Option<TaskId>,
    /// The same
    #[arg(long, value_name = "ID", value_parser = task_id, conflicts_with = "id")]
    task: Option<TaskId>,
    /// Only lines of this session
    #[arg(long, value_name = "N")]
    session: Option<u64>,
    /// Only the last LINES lines that match
    #[arg(short = 'n', long, value_name = "LINES")]
    lines: Option<usize>,
    /// Show times in UTC on a terminal too, as the file has them
    #[arg(long)]
    utc: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Args {
    fn filters(&self) -> bool {
        self.errors || self.task.is_some() || self.session.is_some()
    }

    fn wants(&self, line: &str) -> bool {
        if !self.filters() {
            return true;
        }
        let Some(line) = LogLine::parse(line) else { return false };
        (!self.errors || line.kind == Kind::Error)
            && self.task.as_ref().is_none_or(|task| line.task.as_ref() == Some(task))
            && self.session.is_none_or(|session| line.session == session)
    }
}

pub(crate) fn run(invocation: &mut Invocation, mut args: Args) -> Result<ExitCode> {
    if args.agent {
        return agent::run(invocation, &args);
    }
    let root = invocation.root()?;
    args.task = args.task.or(args.id.take());
    if let Some(task) = &args.task {
        name_unknown(invocation, &root, task);
    }
    let mut watch = args.follow.then(|| Watch::on_ledger(&root, &[LOG]));
    let mut log = LogFile::open(&root)?;
    match args.lines {
        None => {}
        Some(lines) if args.filters() => last_wanted(invocation, &args, &mut log, lines)?,
        Some(lines) => log.seek_last(lines, u64::MAX)?,
    }
    loop {
        while let Some(line) = log.next()? {
            print(invocation, &args, &line)?;
        }
        let Some(watch) = &mut watch else { break };
        if let Some(line) = log.follow()? {
            print(invocation, &args, &line)?;
            continue;
        }
        if let Some(line) = log.next()? {
            print(invocation, &args, &line)?;
            continue;
        }
        invocation.out.finish()?;
        watch.wait(None)?;
    }
    if let Some(line) = log.rest() {
        print(invocation, &args, &line)?;
    }
    Ok(ExitCode::Done)
}

/// Warns about an unknown task. It is no error, because lines about a removed task are still shown.
fn name_unknown(invocation: &Invocation, root: &StateRoot, task: &TaskId) {
    if let Ok(ledger) = invocation.look(root)
        && ledger.task(task).is_none()
    {
        let unknown = not_found(&ledger, task.clone());
        let hints: String = unknown.hints.iter().map(|hint| format!("; {hint}")).collect();
        warn(&format!("{}{hints}", unknown.error));
    }
}

/// Prints the last `lines` selected lines. Only these are kept in memory.
fn last_wanted(
    invocation: &mut Invocation,
    args: &Args,
    log: &mut LogFile,
    lines: usize,
) -> Result<()> {
    let mut kept = VecDeque::new();
    let mut keep = |line: String| {
        if args.wants(&line) {
            kept.push_back(line);
            if kept.len() > lines {
                kept.pop_front();
            }
        }
    };
    while let Some(line) = log.next()? {
        keep(line);
    }
    if !args.follow {
        log.rest().into_iter().for_each(keep);
    }
    kept.iter().try_for_each(|line| print(invocation, args, line))
}

#[derive(Serialize)]
struct Entry<'a> {
    version: u32,
    time: Option<Timestamp>,
    session: Option<u64>,
    #[serde(rename = "type")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<Category>,
    message: &'a str,
}

fn print(invocation: &mut Invocation, args: &Args, line: &str) -> Result<()> {
    if !args.wants(line) {
        return Ok(());
    }
    if !args.json {
        let paint = invocation.out.paint();
        let zone = if args.utc { Zone::Utc } else { Zone::of(&invocation.out) };
        return invocation.out.line(Painted { line, paint, zone });
    }
    let parsed = LogLine::parse(line);
    let parsed = parsed.as_ref();
    invocation.out.json_line(&Entry {
        version: 1,
        time: parsed.map(|l| l.time),
        session: parsed.map(|l| l.session),
        kind: parsed.map(|l| l.kind.name()),
        task_id: parsed.and_then(|l| l.task.as_ref()),
        category: parsed.and_then(|l| l.category),
        message: parsed.map_or(line, |l| &l.message),
    })
}
