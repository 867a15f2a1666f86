//! `harness why`

use harness::{
    clock::{Clock, SystemClock},
    workspace::Workspace,
};
use harness_core::{Receipt, Standing, Task, TaskId, log::LogLine, task::Status};
use serde_json::json;

use super::rescue;
use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    log_file::LogFile,
    log_line::Painted,
    onward,
    paint::one_line,
    root::StateRoot,
    store::{not_found, task_id},
};

/// Explain the state of a task
///
/// Explains why it is not running, was retried, failed or is blocked, or what its completion is
/// based on, using the ledger, the log, the rescues and the receipt. Ends with the command to go on
/// with.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness why task-003
  harness why task-003 --json | jq -r .reason")]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID", value_parser = task_id)]
    id: TaskId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How many lines of the log are shown, the last ones.
const LINES: usize = 12;

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let ledger = invocation.look(&root)?;
    let Some(task) = ledger.task(&args.id) else { return Err(not_found(&ledger, args.id)) };
    let (standing, now) = (Standing::of(&ledger, task), SystemClock.now());
    let receipt = receipt_of(&root, task);
    let rescues = rescues_of(invocation, &root, task);
    let (reason, next) =
        (reason(task, &standing, receipt.as_ref()), onward::command(task, &standing, now));
    let log = lines_of(&root, &task.id)?;
    if args.json {
        invocation.out.document(&json!({
            "task": task.id, "status": task.status().name(), "standing": standing.name(),
            "reason": reason, "attempts": task.attempts, "max_attempts": task.max_attempts,
            "errors": task.error_log, "rescues": rescues, "receipt": receipt, "log": log,
            "next": next,
        }))?;
        return Ok(ExitCode::Done);
    }
    let paint = invocation.out.paint();
    let out = &mut invocation.out;
    out.line(paint.heading(format!("{}: {}", task.id, one_line(&task.title))))?;
    out.line(one_line(&reason))?;
    if !task.error_log.is_empty() {
        out.line("")?;
        out.line(paint.heading("What went wrong, oldest first"))?;
        for entry in &task.error_log {
            out.line(format_args!("  {}", one_line(&entry.to_string())))?;
        }
    }
    if !rescues.is_empty() {
        out.line("")?;
        out.line(paint.heading("What was saved"))?;
        for name in &rescues {
            out.line(format_args!("  harness rescue show {name}"))?;
        }
    }
    if !log.is_empty() {
        out.line("")?;
        out.line(paint.heading("From the log"))?;
        for line in &log {
            out.line(format_args!("  {}", Painted { line, paint }))?;
        }
    }
    out.line("")?;
    out.line(format_args!("{} {next}", paint.hint("Next:")))?;
    Ok(ExitCode::Done)
}

/// One sentence or two, from the facts.
pub(crate) fn reason(task: &Task, standing: &Standing<'_>, receipt: Option<&Receipt>) -> String {
    let last = task.error_log.last();
    let last = last.map_or_else(|| "nothing was recorded".to_owned(), ToString::to_string);
    let tried = format!("{} of {} attempts", task.attempts, task.max_attempts);
    match (task.status(), standing) {
        (Status::Completed, _) => format!("It is completed: {}.", rests_on(receipt)),
        (Status::Failed, Standing::Failed) => match task.dependency_entry() {
            Some(entry) => format!("It failed because of what it depends on: {entry}"),
            None => format!("It failed for good after {tried}: {last}"),
        },
        (Status::Failed, _) => {
            format!(
                "Its last attempt failed ({tried}): {last}. It will be tried again: {standing}."
            )
        }
        (Status::InProgress, _) => match task.intent() {
            Some(_) => format!("It is {standing}. Its end has begun but is not recorded yet."),
            None => format!("It is {standing}."),
        },
        (Status::Pending, Standing::Next | Standing::Ready) if task.check().is_none() => {
            format!("It is {standing}. It has no validation.command, so a session stops there.")
        }
        (Status::Pending, Standing::Next | Standing::Ready) if task.error_log.is_empty() => {
            format!("It is {standing}.")
        }
        (Status::Pending, _) => format!("It is not running yet: {standing}."),
    }
}

/// What a completion rests on, in words.
pub(crate) fn rests_on(receipt: Option<&Receipt>) -> String {
    let Some(receipt) = receipt else { return "there is no receipt for it".to_owned() };
    let Some(check) = &receipt.check else {
        return format!("on the word of {}; no check was run", receipt.worker);
    };
    let place = if check.clean { "a clean checkout" } else { "the work tree" };
    let mut told = format!("`{}` passed in {place}", check.command);
    if let Some(commit) = &receipt.commit {
        told += &format!(" at {}", commit.short());
    }
    if let Some(what) = receipt.of_no_commit() {
        told += &format!("; {what}");
    }
    told
}

pub(crate) fn receipt_of(root: &StateRoot, task: &Task) -> Option<Receipt> {
    let completed = task.status() == Status::Completed;
    let epoch = task.epoch.filter(|_| completed)?;
    harness::store::receipt(root.path(), &task.id, epoch).ok().flatten()
}

/// The names of what rollbacks of this task saved, oldest first; none without git.
fn rescues_of(invocation: &Invocation, root: &StateRoot, task: &Task) -> Vec<String> {
    let found = invocation.workspace(root).ok().and_then(|w| w.rescues(Some(&task.id)).ok());
    found.unwrap_or_default().iter().map(|r| rescue::short(r).to_owned()).collect()
}

fn lines_of(root: &StateRoot, task: &TaskId) -> Result<Vec<String>> {
    let mut log = LogFile::open(root.path())?;
    let mut found = std::collections::VecDeque::new();
    while let Some(line) = log.next()? {
        if LogLine::parse(&line).is_some_and(|parsed| parsed.task.as_ref() == Some(task)) {
            found.push_back(line);
            if found.len() > LINES {
                found.pop_front();
            }
        }
    }
    Ok(found.into())
}
