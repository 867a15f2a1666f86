//! Helpers for tests: commands by short names, and the changes of a command as lines of text.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use harness_core::{
    Category, Change, Command, Holder, Ledger, Refusal, Reply, TaskId, Timestamp, WorkerId,
    command::*,
    decide,
    format::{self, Document},
    task::{Intent, Via},
};
use serde_json::Value;

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

pub(crate) fn worker(text: &str) -> WorkerId {
    WorkerId::parse(text).unwrap()
}

pub(crate) fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

pub(crate) fn holder(task: &str, by: &str) -> Holder {
    Holder { task: id(task), worker: worker(by), epoch: None }
}

pub(crate) fn client(by: &str) -> Claim {
    Claim {
        worker: worker(by),
        via: Via::Client,
        role: None,
        labels: Vec::new(),
        choice: ClaimChoice::Next,
        lease_seconds: harness_core::lease::CLIENT_LEASE_SECONDS,
        place: Place::default(),
        parallel: None,
    }
}

pub(crate) fn session(by: &str) -> Claim {
    let lease_seconds = harness_core::lease::SESSION_LEASE_SECONDS;
    Claim { via: Via::Run, lease_seconds, ..client(by) }
}

pub(crate) fn complete(task: &str, by: &str) -> Complete {
    Complete {
        holder: holder(task, by),
        authority: Authority::Holder,
        proof: Proof::Word,
        unchecked: Unchecked::Allowed,
        commit: None,
    }
}

pub(crate) fn fail(task: &str, by: &str, category: Category, message: &str) -> Fail {
    Fail {
        holder: holder(task, by),
        category,
        message: message.into(),
        attempts: Attempts::One,
        rolled_back_to: None,
    }
}

pub(crate) fn rollback(message: &str) -> Intent {
    Intent::Rollback { category: Category::TestFail, message: message.into() }
}

/// Reads a ledger: its whole text, or only the list of its tasks.
pub(crate) fn ledger(text: &str) -> Ledger {
    let whole = if text.trim_start().starts_with('[') {
        format!("{{\"version\": 2, \"tasks\": {text}}}")
    } else {
        text.to_owned()
    };
    format::read(whole.as_bytes()).unwrap_or_else(|e| panic!("{e}: {whole}")).0
}

/// Returns the refusal, or the reply, the log lines (without their common prefix) and the changed
/// fields.
pub(crate) fn outcome(before: &Ledger, now: Timestamp, command: &Command) -> Vec<String> {
    let change = match decide(before, now, command) {
        Ok(change) => change,
        Err(refusal) => return vec![format!("refused: {refusal}")],
    };
    let mut lines = vec![reply(&change.reply)];
    let prefix = format!("[{now}] [SESSION-{}] ", before.head().session_count);
    for fact in &change.facts {
        if let Some(line) = fact.log_line(now, before.head().session_count) {
            let line = line.to_string();
            lines.push(format!("log: {}", line.strip_prefix(&prefix).unwrap()));
        }
    }
    lines.extend(changes(before, &change));
    lines
}

fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Task(task) => format!("task {task}"),
        Reply::Claimed(c) => {
            let mut text = format!("claimed {} epoch={}", c.task.id, c.epoch);
            text.push_str(if c.is_retry { " is_retry" } else { "" });
            text.push_str(if c.is_reclaim { " is_reclaim" } else { "" });
            text
        }
        Reply::NothingToClaim => "nothing to claim".into(),
        Reply::Lease { task, expires_at } => format!("lease {task} {expires_at}"),
        Reply::Failed { task, retryable } => format!("failed {task} retryable={retryable}"),
        Reply::Imported { goal, task_count, warnings, .. } => {
            format!("imported {goal:?} {task_count} {warnings:?}")
        }
        Reply::Reset { task_count } => format!("reset {task_count}"),
        Reply::Reopened { tasks, dependents } => format!("reopened {tasks:?} {dependents:?}"),
        Reply::Session { number } => format!("session {number}"),
        Reply::Noted => "noted".into(),
        Reply::Spent(usage) => format!("spent {} tokens", usage.tokens()),
    }
}

/// Returns the fields that differ on disk, `task.field: before -> after`, with `-` for a missing
/// value.
fn changes(before: &Ledger, change: &Change) -> Vec<String> {
    let mut after = before.clone();
    let mut document = Document::new(before);
    let old: Value = serde_json::from_str(&document.render(before)).unwrap();
    after.put_in(change);
    document.put_in(change);
    let new: Value = serde_json::from_str(&document.render(&after)).unwrap();
    let mut lines = Vec::new();
    differences("head", &without_tasks(&old), &without_tasks(&new), &mut lines);
    let of = |root: &Value, task: &TaskId| {
        let tasks = root["tasks"].as_array().unwrap();
        tasks.iter().find(|t| t["id"] == task.as_str()).cloned()
    };
    let mut ids: Vec<&TaskId> = before.tasks().map(|t| &t.id).collect();
    ids.extend(after.tasks().map(|t| &t.id).filter(|id| !before.contains(id)));
    for task in ids {
        match (of(&old, task), of(&new, task)) {
            (Some(old), Some(new)) => differences(task.as_str(), &old, &new, &mut lines),
            (Some(_), None) => lines.push(format!("{task}: gone")),
            (None, Some(new)) => {
                let blank = Ledger::new(
                    before.head().clone(),
                    vec![harness_core::Task::new(task.clone(), "")],
                );
                let blank = Document::new(&blank.unwrap()).task(task).unwrap().into_owned();
                lines.push(format!("{task}: new"));
                differences(
                    task.as_str(),
                    &serde_json::from_str(&blank).unwrap(),
                    &new,
                    &mut lines,
                );
            }
            (None, None) => unreachable!("every id is from one of the two"),
        }
    }
    lines
}

fn without_tasks(root: &Value) -> Value {
    let mut root = root.clone();
    root.as_object_mut().unwrap().shift_remove("tasks");
    root
}

fn differences(name: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    let (old, new) = (old.as_object().unwrap(), new.as_object().unwrap());
    let text = |v: Option<&Value>| v.map_or_else(|| "-".into(), ToString::to_string);
    let keys = old.keys().chain(new.keys().filter(|k| !old.contains_key(*k)));
    for key in keys.filter(|k| old.get(*k) != new.get(*k)) {
        lines.push(format!("{name}.{key}: {} -> {}", text(old.get(key)), text(new.get(key))));
    }
}

#[track_caller]
pub(crate) fn check(ledger_text: &str, now: Timestamp, command: Command, expected: &[&str]) {
    let before = ledger(ledger_text);
    let got = outcome(&before, now, &command);
    assert_eq!(got, expected, "\n{command:#?}\ngot:\n{}", got.join("\n"));
}

/// Decides the command and applies the change.
pub(crate) fn apply(
    ledger: &mut Ledger,
    now: Timestamp,
    command: &Command,
) -> Result<Change, Refusal> {
    let change = decide(ledger, now, command)?;
    ledger.put_in(&change);
    Ok(change)
}
