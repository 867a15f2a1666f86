//! `pre-compact`: a context is about to be summarized. Returns what the summary must keep.

use std::path::Path;

use harness::home::folder::Folder;
use harness_core::{
    Ledger, Task, handoff,
    log::escape,
    run::{Run, RunId},
};

use super::{
    Answer,
    outlook::{self, Outlook},
    project::{Project, shortened},
};
use crate::environment::Environment;

const TEXT_CHARACTERS: usize = 10_000;
const PART_CHARACTERS: usize = 2000;
const TASKS_MAX: usize = 5;

pub(super) fn answer(env: &Environment, project: &Project<'_>) -> Answer {
    let mut text = String::new();
    let run = run(env, project);
    match project.ledger() {
        Ok(ledger) => text += &of_ledger(env, &ledger, run.as_ref()),
        Err(why) => {
            text += &format!("HARNESS: CONFIG error: {why}\n");
        }
    }
    if let Some(handoff) = handoff(project.path()) {
        text += &format!("Handoff ({}):\n{}", handoff::PATH, shortened(&handoff, PART_CHARACTERS));
    }
    keep(&text)
}

/// Returns text that the summary must keep.
pub(super) fn keep(text: &str) -> Answer {
    let text = format!("HARNESS: keep all of this in the summary.\n{}", text.trim_end());
    Answer { stdout: shortened(&text, TEXT_CHARACTERS) + "\n", ..Answer::silent() }
}

fn of_ledger(env: &Environment, ledger: &Ledger, run: Option<&Run>) -> String {
    let outlook = Outlook::of(ledger);
    let objective = run.and_then(|run| run.objective.as_deref());
    let objective = objective.or(ledger.head().goal.as_deref());
    let objective = objective.unwrap_or("work through harness-tasks.json until nothing is left");
    let mut text = format!("Objective: {}\n", part(objective));
    let promise = run.map(|run| run.completion_promise.trim()).filter(|p| !p.is_empty());
    text += &match promise {
        Some(promise) => format!("Promise: print {} only when all of it is done.\n", part(promise)),
        None => "Promise: a task is done only when its check passes (`harness task complete`).\n"
            .to_owned(),
    };
    let current = current(env, &outlook);
    for task in current.iter().take(TASKS_MAX) {
        text += &of_task(task);
    }
    if current.is_empty() {
        text += "Current task: none; claim one with `harness task claim`.\n";
    }
    text + &format!("Ledger: {}\n", outlook.summary())
}

/// Returns the task of the caller, as far as it is known.
fn current<'a>(env: &Environment, outlook: &Outlook<'a>) -> Vec<&'a Task> {
    let named = env.get("HARNESS_TASK_ID").and_then(|id| id.to_str());
    let named = outlook.in_progress.iter().find(|task| Some(task.id.as_str()) == named);
    if let Some(task) = named {
        return vec![task];
    }
    match outlook::worker(env).filter(|_| outlook.is_concurrent()) {
        Some(worker) => outlook.of_workers(&[worker]),
        None => outlook.in_progress.clone(),
    }
}

fn of_task(task: &Task) -> String {
    let mut text = format!("Current task: {}\n", outlook::named(task));
    if let Some(instructions) = &task.instructions {
        text += &format!("  Instructions: {}\n", part(instructions));
    }
    if let Some(check) = task.check() {
        text += &format!("  Check: {}\n", part(check));
    }
    if let Some(last) = task.checkpoints.last() {
        let described = part(&last.description);
        text += &format!("  Last checkpoint: {}/{} {described}\n", last.step, last.total);
    }
    text
}

/// Formats text of people as one line.
fn part(text: &str) -> String {
    shortened(&escape(text.trim()), PART_CHARACTERS)
}

/// Returns the run of an agent that harness started.
fn run(env: &Environment, project: &Project<'_>) -> Option<Run> {
    let id = RunId::parse(env.get("HARNESS_RUN_ID")?.to_str()?).ok()?;
    project.root().look_at_runs().ok()??.run(&id).ok()?
}

/// Returns the agent's notes for its next context. A link is not followed, because the agent did
/// not write its target.
pub(super) fn handoff(root: &Path) -> Option<String> {
    let (folder, name) = handoff::PATH.split_once('/')?;
    let folder = Folder::open(root).ok()?.child(folder).ok()??;
    let bytes = folder.read_small(name, handoff::BYTES_MAX as u64).ok()??;
    let state = handoff::read(&bytes).handoff?.resumed_state();
    (!state.is_empty()).then_some(state)
}
