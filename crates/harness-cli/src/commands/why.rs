//! `harness why`

use harness::{
    clock::{Clock, SystemClock},
    view::{AttemptSummary, TaskDetail},
    workspace::{GitRepository, TreeSettings, Workspace, shared::SharedRepository as _},
};
use harness_core::{Ledger, Receipt, Standing, Task, TaskId, line, log::LogLine, task::Status};
use serde_json::{Value, json};

use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    log_file::LogFile,
    log_line::{Painted, Zone},
    paint::one_line,
    render::Out,
    repository,
    root::StateRoot,
    store::{not_found, task_id},
    task_line::Span,
    view_sources::{Surroundings, receipt_of, whole_record},
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
    let record = whole_record(&root, Some(&task.id));
    let surroundings = Surroundings::read(invocation, &root);
    let now = SystemClock.now();
    let workers = surroundings.workers(&ledger, &record, now);
    let around = surroundings.of_task(&record, &workers, ledger.head().paused_at);
    let detail = TaskDetail::of(task, Standing::of(&ledger, task), &around, now);
    let held_back = held_back(invocation, &root, &ledger, task);
    let receipt = receipt_of(&root, task);
    let rescues = rescues_of(invocation, &root, task);
    let mut reason = reason(&detail, receipt.as_ref());
    if let Some(since) = detail.paused_at {
        reason.push_str(&format!(" Claiming is paused since {since}."));
    }
    if let Some(by) = held_back {
        let by =
            format!(" It does not land before {by}, which has reserved a file that it changes.");
        reason.push_str(&by);
    }
    let log = lines_of(&root, &task.id)?;
    if args.json {
        let mut document = json!({
            "task": task.id, "status": task.status().name(), "standing": detail.standing.name(),
            "reason": reason, "attempts": task.attempts, "max_attempts": task.max_attempts,
            "errors": task.error_log, "rescues": rescues, "receipt": receipt, "log": log,
            "next": detail.next, "held_back_by": held_back,
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
    let zone = Zone::of(out);
    let shown = log.iter().map(|line| Painted { line, paint, zone }.to_string());
    section(out, "From the log", shown)?;
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

/// Returns the task with a reservation that keeps a prepared result from landing. Git is only asked if
/// the result is in the line.
fn held_back<'l>(
    invocation: &Invocation,
    root: &StateRoot,
    ledger: &'l Ledger,
    task: &Task,
) -> Option<&'l TaskId> {
    let line = &ledger.head().landing;
    let entry = &line[line::position(line, &task.id, task.epoch?)?];
    let (onto, commit) = (entry.onto.as_ref()?, entry.commit.as_ref()?);
    let git = invocation.workspace(root).ok()?;
    let git = GitRepository::new(git, root.path(), TreeSettings::default()).ok()?;
    let files = git.files_between(onto, commit).ok()?;
    line::held_back(ledger, &task.id, &files, SystemClock.now())
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
            (None, None) => match &detail.question {
                Some(card) => format!("It is {standing}. It asks: {}", card.question.question),
                None => format!("It is {standing}."),
            },
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
        (Status::Pending, Standing::Requires { .. }) => {
            let able = detail.able.as_deref().unwrap_or_default();
            let able = match able {
                [] => "No worker that is there has them".to_owned(),
                [one] => format!("{one} has them"),
                several => format!("{} have them", several.join(", ")),
            };
            format!("It is not running yet: {standing}. {able}.")
        }
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

/// Returns the names of the rescues that rollbacks of this task saved, oldest first; none without
/// git.
fn rescues_of(invocation: &Invocation, root: &StateRoot, task: &Task) -> Vec<String> {
    let found = invocation.workspace(root).ok().and_then(|w| w.rescues(Some(&task.id)).ok());
    found.unwrap_or_default().iter().map(|r| repository::short(r).to_owned()).collect()
}

fn lines_of(root: &StateRoot, task: &TaskId) -> Result<Vec<String>> {
    let mut log = LogFile::open(root)?;
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
