//! The invariants. Each is one function, and a failing seed prints its name.

use std::collections::BTreeSet;

use harness::store::disk::File;
use harness_core::{
    Command, Ledger, Refusal, Reply, Task,
    command::{Authority, Proof},
    ledger::Head,
    log::LogLine,
    task::Status,
};

use crate::{
    disk::{CrashKind, SimDisk},
    history::{History, Mark, drops, live},
};

/// One transaction, seen from outside.
pub struct Step<'a> {
    pub before: &'a Ledger,
    pub after: &'a Ledger,
    /// The result of the decisions for `before`.
    pub expected: &'a Expected,
    pub commands: &'a [Command],
    pub outcome: &'a Outcome,
    pub stored: Stored,
    /// `true` if the ledger was garbage when the transaction began.
    pub was_corrupt: bool,
    pub bytes_changed: bool,
    pub log_before: &'a [u8],
    pub log_after: &'a [u8],
    pub disk: &'a SimDisk,
}

pub struct Expected {
    pub ledger: Ledger,
    pub replies: Vec<Result<Reply, Refusal>>,
    pub lines: Vec<String>,
    pub touched: bool,
}

#[derive(Debug)]
pub enum Outcome {
    Acknowledged {
        replies: Vec<Result<Reply, Refusal>>,
        warnings: Vec<String>,
    },
    /// The store returned an error, and the process continues.
    Errored {
        error: String,
        unrecoverable: bool,
    },
    Died(CrashKind),
}

/// The version of the ledger after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    New,
    Same,
    /// An earlier version, whose successor was never acknowledged. Only a power loss may cause
    /// this.
    Earlier(usize),
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub checker: &'static str,
    pub what: String,
}

impl Violation {
    /// Returns it as an `Err`, for the last line of a checker.
    pub fn of<T>(checker: &'static str, what: String) -> Result<T, Self> {
        Err(Self { checker, what })
    }
}

type Verdict = Result<(), String>;
type OfStep = fn(&Step<'_>, &History) -> Verdict;

/// These checkers see the history before the step.
const TRANSITIONS: [(&str, OfStep); 10] = [
    ("ledger_or_backup_always_parses", ledger_or_backup_always_parses),
    ("backup_restores", backup_restores),
    ("all_or_nothing", all_or_nothing),
    ("refused_changes_nothing", refused_changes_nothing),
    ("acknowledged_is_durable", acknowledged_is_durable),
    ("epochs_only_grow", epochs_only_grow),
    ("an_epoch_ends_once", an_epoch_ends_once),
    ("completed_once", completed_once),
    ("completed_means_checked", completed_means_checked),
    ("the_log_only_grows", the_log_only_grows),
];

/// These checkers see the history that includes the step.
const STATES: [(&str, OfStep); 4] = [
    ("acknowledged_is_stored", acknowledged_is_stored),
    ("one_live_claim", one_live_claim),
    ("attempts_are_bounded", attempts_are_bounded),
    ("each_line_once_in_order", each_line_once_in_order),
];

pub fn check_transition(step: &Step<'_>, history: &History) -> Result<(), Violation> {
    check(&TRANSITIONS, step, history)
}

pub fn check_state(step: &Step<'_>, history: &History) -> Result<(), Violation> {
    check(&STATES, step, history)
}

fn check(
    checkers: &[(&'static str, OfStep)],
    step: &Step<'_>,
    history: &History,
) -> Result<(), Violation> {
    for (checker, holds) in checkers {
        holds(step, history).map_err(|what| Violation { checker, what })?;
    }
    Ok(())
}

fn ledger_or_backup_always_parses(step: &Step<'_>, _: &History) -> Verdict {
    step.disk.unreadable().map_or(Ok(()), Err)
}

fn backup_restores(step: &Step<'_>, _: &History) -> Verdict {
    match step.outcome {
        Outcome::Errored { error, unrecoverable: true } => Err(error.clone()),
        Outcome::Errored { .. } | Outcome::Acknowledged { .. } | Outcome::Died(_) => Ok(()),
    }
}

/// After an answer, all of it is stored. After an error or a death, all of it or nothing.
fn all_or_nothing(step: &Step<'_>, _: &History) -> Verdict {
    match (step.outcome, step.stored) {
        (Outcome::Acknowledged { replies, .. }, Stored::New) => {
            if *replies == step.expected.replies {
                Ok(())
            } else {
                Err(format!("answered {replies:?}, decided {:?}", step.expected.replies))
            }
        }
        (Outcome::Errored { .. } | Outcome::Died(_), Stored::New | Stored::Same)
        | (Outcome::Died(CrashKind::PowerLoss), Stored::Earlier(_)) => Ok(()),
        (outcome, stored) => Err(format!("the ledger is {stored:?} after {outcome:?}")),
    }
}

fn refused_changes_nothing(step: &Step<'_>, _: &History) -> Verdict {
    let Outcome::Acknowledged { replies, .. } = step.outcome else { return Ok(()) };
    if step.bytes_changed && !step.was_corrupt && replies.iter().all(Result::is_err) {
        return Err("all commands were refused and the file changed".into());
    }
    Ok(())
}

fn acknowledged_is_durable(step: &Step<'_>, _: &History) -> Verdict {
    match step.outcome {
        Outcome::Acknowledged { .. } if !step.disk.ledger_is_durable() => {
            Err("it was answered, but a power loss would take it back".into())
        }
        _ => Ok(()),
    }
}

fn epochs_only_grow(step: &Step<'_>, history: &History) -> Verdict {
    for task in step.after.tasks() {
        let before = step.before.task(&task.id).and_then(live);
        if let Some(epoch) = live(task)
            && before != Some(epoch)
            && step.stored == Stored::New
            && epoch <= history.highest_epoch
        {
            let highest = history.highest_epoch;
            return Err(format!("{} was claimed with epoch {epoch} after {highest}", task.id));
        }
    }
    Ok(())
}

fn an_epoch_ends_once(step: &Step<'_>, history: &History) -> Verdict {
    let again = step.after.tasks().find(|t| live(t).is_some_and(|e| history.ended.contains(&e)));
    match again {
        Some(task) if step.stored == Stored::New || step.stored == Stored::Same => {
            Err(format!("{} is held again with epoch {:?}", task.id, task.epoch))
        }
        Some(_) | None => Ok(()),
    }
}

fn completed_once(step: &Step<'_>, history: &History) -> Verdict {
    if matches!(step.stored, Stored::Earlier(_)) {
        return Ok(());
    }
    for id in &history.completed {
        if drops(step.commands, id) {
            continue;
        }
        match (step.before.task(id), step.after.task(id)) {
            (Some(before), Some(after)) if after.status() == Status::Completed => {
                if (before.epoch, before.completed_at()) != (after.epoch, after.completed_at()) {
                    return Err(format!("{id} was completed a second time"));
                }
            }
            (_, after) => {
                let now = after.map_or("gone".to_owned(), |t| t.status().to_string());
                return Err(format!("{id} was completed and is {now}"));
            }
        }
    }
    Ok(())
}

/// Only its holder completes a task. If the task has a check, only that check counts.
fn completed_means_checked(step: &Step<'_>, _: &History) -> Verdict {
    let [Command::Complete(complete)] = step.commands else { return Ok(()) };
    let id = &complete.holder.task;
    let (Some(before), Some(after)) = (step.before.task(id), step.after.task(id)) else {
        return Ok(());
    };
    if before.status() == Status::Completed || after.status() != Status::Completed {
        return Ok(());
    }
    let proven = match (&complete.proof, before.check()) {
        (Proof::Passed { command }, Some(check)) => command == check,
        (Proof::Passed { .. }, None) | (Proof::Word, Some(_)) => false,
        (Proof::Word, None) => true,
    };
    if !proven {
        return Err(format!("{id} is completed without its check"));
    }
    let holds = before.status() == Status::InProgress
        && before.claimed_by() == Some(&complete.holder.worker)
        && complete.holder.epoch.is_none_or(|e| before.epoch == Some(e));
    if holds || complete.authority == Authority::Force {
        return Ok(());
    }
    Err(format!("{id} is completed by {}, who does not hold it", complete.holder.worker))
}

fn the_log_only_grows(step: &Step<'_>, _: &History) -> Verdict {
    match step.outcome {
        // A power loss may destroy bytes that were not synced. The lines are checked separately.
        Outcome::Died(CrashKind::PowerLoss) => Ok(()),
        _ if step.log_after.starts_with(step.log_before) => Ok(()),
        _ => Err("bytes that were in the log have changed".into()),
    }
}

fn acknowledged_is_stored(step: &Step<'_>, history: &History) -> Verdict {
    if step.after.head().session_count < history.sessions {
        return Err(format!("session {} was begun and is forgotten", history.sessions));
    }
    for (id, mark) in &history.marks {
        let task = step.after.task(id);
        if !shows(mark, task) {
            let found = task.map(|t| (t.status(), t.claimed_by(), t.epoch, t.intent()));
            return Err(format!("{id}: {mark:?} was acknowledged, found {found:?}"));
        }
    }
    Ok(())
}

fn shows(mark: &Mark, task: Option<&Task>) -> bool {
    let Some(task) = task else { return *mark == Mark::Gone };
    match mark {
        Mark::Gone => false,
        Mark::Waiting => task.status() == Status::Pending,
        Mark::Failed => task.status() == Status::Failed,
        Mark::Done { worker } => {
            task.status() == Status::Completed && task.claimed_by() == Some(worker)
        }
        Mark::Held { worker, epoch, intends, step } => {
            task.status() == Status::InProgress
                && task.claimed_by() == Some(worker)
                && task.epoch == Some(*epoch)
                && (!intends || task.intent().is_some())
                && step.as_ref().is_none_or(|text| {
                    task.checkpoints.last().is_some_and(|c| c.description == *text)
                })
        }
    }
}

fn one_live_claim(step: &Step<'_>, history: &History) -> Verdict {
    let mut epochs = BTreeSet::new();
    let mut workers = BTreeSet::new();
    for task in step.after.tasks() {
        let Some(epoch) = live(task) else { continue };
        let Some(worker) = task.claimed_by() else {
            return Err(format!("{} is in progress and nobody holds it", task.id));
        };
        if task.lease_expires_at().is_none() || !epochs.insert(epoch) || !workers.insert(worker) {
            return Err(format!("{} is held by {worker}, epoch {epoch}, not alone", task.id));
        }
        if epoch > step.after.head().epoch.0 {
            return Err(format!("{} has epoch {epoch}, beyond the counter", task.id));
        }
    }
    let believers = |task: &Task| {
        let held = history.marks.iter().filter(|(id, _)| **id == task.id);
        held.filter(|(_, mark)| matches!(mark, Mark::Held { .. })).count()
    };
    match step.after.tasks().find(|t| believers(t) > 1) {
        Some(task) => Err(format!("two workers were told that they hold {}", task.id)),
        None => Ok(()),
    }
}

/// An attempt never counts beyond the maximum. A maximum that was lowered below the current count
/// changes no count.
fn attempts_are_bounded(step: &Step<'_>, _: &History) -> Verdict {
    if step.commands.len() > 1 && step.commands.iter().any(|c| matches!(c, Command::Edit(_))) {
        return Ok(());
    }
    let over = |t: &&Task| {
        let before = step.before.task(&t.id).map_or(0, |b| b.attempts);
        t.attempts > t.max_attempts.max(before)
    };
    match step.after.tasks().find(over) {
        Some(task) => Err(format!("{} had {} attempts", task.id, task.attempts)),
        None => Ok(()),
    }
}

/// After a successful transaction, the log has every line of every stored change once and in order,
/// among the lines of others. After a failed one, it may lack only the last lines.
fn each_line_once_in_order(step: &Step<'_>, history: &History) -> Verdict {
    let matched = matched_lines(step.log_after, history)?;
    let Outcome::Acknowledged { warnings, .. } = step.outcome else { return Ok(()) };
    if matched < history.lines.len() && !warnings.iter().any(|w| w.contains("log lines")) {
        return Err(format!("the log lacks {:?}", history.lines[matched]));
    }
    Ok(())
}

/// Returns how many of `lines` the log has, from the first on.
pub fn count_lines(log: &[u8], lines: &[String]) -> usize {
    log.split(|b| *b == b'\n').fold(0, |count, line| {
        let next = lines.get(count).is_some_and(|next| next.as_bytes() == line);
        count + usize::from(next)
    })
}

/// Does the same, and checks that the log has no other line that looks like ours.
fn matched_lines(log: &[u8], history: &History) -> Result<usize, String> {
    let lines = &history.lines;
    let mut matched = 0;
    for line in log.split(|b| *b == b'\n') {
        if lines.get(matched).is_some_and(|next| next.as_bytes() == line) {
            matched += 1;
            continue;
        }
        let text = String::from_utf8_lossy(line);
        if text.contains("peer-") || text.contains('\0') || LogLine::parse(&text).is_none() {
            continue;
        }
        // A partial line is left if another program wrote after it before it was finished, or if
        // the version that remembered it was destroyed.
        if history.forgotten.iter().any(|known| known.starts_with(&*text)) {
            continue;
        }
        if lines.iter().any(|known| *known == text) {
            return Err(format!("twice or out of order in the log: {text}"));
        }
        if !lines.iter().any(|known| known.starts_with(&*text)) {
            return Err(format!("in the log, but never stored: {text}"));
        }
    }
    Ok(matched)
}

/// Checks that fields of other programs are still in their places.
pub fn outside_fields_survive(disk: &SimDisk, history: &History) -> Result<(), Violation> {
    let violation = |what| Violation { checker: "outside_fields_survive", what };
    if history.notes.is_empty() {
        return Ok(());
    }
    let root: serde_json::Value = serde_json::from_slice(&disk.bytes(File::Ledger))
        .map_err(|e| violation(format!("the ledger is no JSON: {e}")))?;
    let tasks = root.get("tasks").and_then(|t| t.as_array());
    for note in &history.notes {
        let place = match &note.task {
            None => Some(&root),
            Some(id) => tasks.into_iter().flatten().find(|t| t["id"] == id.as_str()),
        };
        if place.and_then(|p| p.get(&note.key)).is_none() {
            return Err(violation(format!("{note:?} is gone")));
        }
    }
    Ok(())
}

/// Returns whether two ledgers are equal, apart from what they store for the log.
pub fn same(a: &Ledger, b: &Ledger) -> bool {
    let told = |head: &Head| Head { log_tail: Vec::new(), log_at: 0, ..head.clone() };
    a.len() == b.len() && told(a.head()) == told(b.head()) && a.tasks().eq(b.tasks())
}
