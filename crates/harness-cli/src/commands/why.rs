//! `harness why`

use harness::{
    clock::{Clock, SystemClock},
    view::{AttemptSummary, TaskDetail},
    workspace::Workspace,
};
use harness_core::{Receipt, Standing, Task, TaskId, log::LogLine, task::Status};
use serde_json::{Value, json};

use super::rescue;
use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    log_file::LogFile,
    log_line::Painted,
    paint::one_line,
    render::Out,
    root::StateRoot,
    store::{not_found, task_id},
    task_line::Span,
    view_sources::{Surroundings, whole_record},
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

/// The number of lines of the log that are shown, the last ones.
const LINES: usize = 12;

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let ledger = invocation.look(&root)?;
    let Some(task) = ledger.task(&args.id) else { return Err(not_found(&ledger, args.id)) };
    let record = whole_record(root.path(), Some(&task.id));
    let surroundings = Surroundings::read(invocation, &root);
    let around = surroundings.of_task(&record);
    let detail = TaskDetail::of(task, Standing::of(&ledger, task), &around, SystemClock.now());
    let receipt = receipt_of(&root, task);
    let rescues = rescues_of(invocation, &root, task);
    let reason = reason(&detail, receipt.as_ref());
    let log = lines_of(&root, &task.id)?;
    if args.json {
        let mut document = json!({
            "task": task.id, "status": task.status().name(), "standing": detail.standing.name(),
            "reason": reason, "attempts": task.attempts, "max_attempts": task.max_attempts,
            "errors": task.error_log, "rescues": rescues, "receipt": receipt, "log": log,
            "next": detail.next,
        });
        merge(&mut document, serde_json::to_value(&detail)?);
        invocation.out.document(&document)?;
        return Ok(ExitCode::Done);
    }
    let out = &mut invocation.out;
    out.line(out.paint().heading(format!("{}: {}", task.id, one_line(&task.title))))?;
    out.line(one_line(&reason))?;
    let gate = detail.gate.iter().flat_map(|gate| gate.last_lines());
    let gate = gate.map(|line| format!("| {}", one_line(line)));
    section(out, "What the gate printed", gate)?;
    let errors = task.error_log.iter().map(|entry| one_line(&entry.to_string()).into_owned());
    section(out, "What went wrong, oldest first", errors)?;
    let saved = rescues.iter().map(|name| format!("harness rescue show {name}"));
    section(out, "What was saved", saved)?;
    section(out, "What the agents did", detail.runs.iter().rev().flat_map(attempt_lines))?;
    let paint = out.paint();
    section(out, "From the log", log.iter().map(|line| Painted { line, paint }.to_string()))?;
    out.line("")?;
    out.line(format_args!("{} {}", paint.hint("Next:"), detail.next))?;
    Ok(ExitCode::Done)
}

/// Adds the fields that `document` does not have.
fn merge(document: &mut Value, more: Value) {
    if let (Value::Object(document), Value::Object(more)) = (document, more) {
        for (key, value) in more {
            document.entry(key).or_insert(value);
        }
    }
}

/// Prints indented lines below a heading, or nothing if there are no lines.
fn section(out: &mut Out, title: &str, lines: impl Iterator<Item = String>) -> Result<()> {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    out.line("")?;
    out.line(out.paint().heading(title))?;
    lines.try_for_each(|line| out.line(format_args!("  {line}")))
}

/// Returns an attempt, with the transcripts of its agents.
fn attempt_lines(attempt: &AttemptSummary) -> Vec<String> {
    let spending = &attempt.spending;
    let mut line = format!("{}: {}", attempt.started_at, one_line(&attempt.agent));
    line += &format!(", {}", Span(spending.seconds));
    if spending.tokens() > 0 {
        line += &format!(", {} tokens", spending.tokens());
    }
    if let Some(cost) = spending.cost_usd {
        line += &format!(", ${cost:.2}");
    }
    let transcripts = attempt.transcripts.iter().map(|path| format!("  {}", one_line(path)));
    std::iter::once(line).chain(transcripts).collect()
}

/// Returns one or two sentences that follow from the facts.
fn reason(detail: &TaskDetail<'_>, receipt: Option<&Receipt>) -> String {
    let (task, standing) = (detail.task, &detail.standing);
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
        (Status::InProgress, _) => match (&detail.abandoned, task.intent()) {
            (Some(run), _) => {
                format!("It is {standing}, but nobody works on it: its run {}.", run.ended())
            }
            (None, Some(_)) => {
                format!("It is {standing}. Its end has begun but is not recorded yet.")
            }
            (None, None) => format!("It is {standing}."),
        },
        (Status::Pending, Standing::Phase { .. }) => match (&detail.question, detail.gate) {
            (Some(card), _) => {
                format!("It is not running yet: {standing}. {}", card.question.question)
            }
            (None, Some(gate)) => {
                format!("It is not running yet: {standing}, whose gate is closed: {}.", gate.why)
            }
            (None, None) => format!("It is not running yet: {standing}."),
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

/// Describes the evidence of a completion.
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

/// Returns the names of the rescues that rollbacks of this task saved, oldest first; none without
/// git.
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
