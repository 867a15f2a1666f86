//! `stop`: an agent wants to end its turn. It may if the ledger has nothing left for it.

use std::collections::HashSet;

use harness_core::{Ledger, Task, ledger::ConcurrencyMode, log::escape};

use super::{
    Answer,
    outlook::{self, Outlook},
    payload::Payload,
    project::{ACTIVE, COUNTER, Marker, Project, REFLECT},
};
use crate::environment::Environment;

/// The number of times that an agent is kept from stopping without completing anything.
const BLOCKS_MAX: u64 = 8;
/// The number of tasks that are named as being worked on.
const NAMED_MAX: usize = 5;

pub(super) fn answer(
    env: &Environment,
    project: &Project<'_>,
    marker: &Marker,
    payload: &Payload,
) -> Answer {
    let ledger = match project.ledger() {
        Ok(ledger) => ledger,
        Err(why) if payload.is_kept_going() => {
            return allow(project).warn(&why);
        }
        Err(why) => return Answer::block(&unreadable(&why)),
    };
    if sessions_are_used_up(&ledger) || tasks_are_used_up(project, &ledger) {
        return allow(project);
    }
    let outlook = Outlook::of(&ledger);
    let claimed = claimed_here(env, &outlook);
    if outlook.has_open() || !claimed.is_empty() {
        return block(project, payload, &outlook, &claimed);
    }
    if outlook.is_paused() {
        return allow(project);
    }
    // A worker with a task still needs the marker, and so do tasks behind a gate.
    if outlook.in_progress.is_empty() && ledger.selection().due_gate().is_none() {
        return finish(project, marker);
    }
    allow(project)
}

/// Returns the claimed tasks that keep this agent from stopping. One of several workers is not kept
/// for the tasks of the others.
fn claimed_here<'a>(env: &Environment, outlook: &Outlook<'a>) -> Vec<&'a Task> {
    let worker = outlook::worker(env).filter(|_| outlook.is_concurrent());
    let counts = |task: &&Task| match (worker, outlook::owner(task)) {
        (Some(worker), Some(by)) => worker == by,
        (Some(_), None) | (None, _) => true,
    };
    outlook.in_progress.iter().copied().filter(counts).collect()
}

fn sessions_are_used_up(ledger: &Ledger) -> bool {
    let head = ledger.head();
    let most = u64::try_from(head.session_config.max_sessions).unwrap_or(0);
    most > 0 && head.session_count >= most
}

fn tasks_are_used_up(project: &Project<'_>, ledger: &Ledger) -> bool {
    let head = ledger.head();
    let most = usize::try_from(head.session_config.max_tasks_per_session).unwrap_or(0);
    if most == 0 || head.session_config.concurrency_mode == ConcurrencyMode::Concurrent {
        return false;
    }
    // Only `harness run` counts sessions. Agents that people started have no number.
    if head.session_count == 0 {
        return false;
    }
    let ids: HashSet<&str> = ledger.tasks().map(|task| task.id.as_str()).collect();
    let session = format!("[SESSION-{}] ", head.session_count);
    // Lines of the published protocol may have no time.
    let fact = |line: &'_ str| {
        let (before, fact) = line.split_once(&session)?;
        (before.is_empty() || before.ends_with("] ")).then(|| fact.to_owned())
    };
    let log = project.log_tail();
    if log.iter().any(|line| fact(line).is_some_and(|fact| fact == "LOCK released")) {
        return false;
    }
    let ended = |line: &&String| {
        let Some(fact) = fact(line) else { return false };
        let failed = fact.strip_prefix("ERROR [").and_then(|rest| rest.split_once(']'));
        fact.starts_with("Completed [") || failed.is_some_and(|(id, _)| ids.contains(id))
    };
    log.iter().filter(ended).count() >= most
}

fn allow(project: &Project<'_>) -> Answer {
    project.remove(COUNTER);
    Answer::silent()
}

/// Finishes, because nothing is left. The marker for `self-reflect` is written first, so that a
/// crash in between only repeats the stop.
fn finish(project: &Project<'_>, marker: &Marker) -> Answer {
    let marked = project.write(REFLECT, marker.text());
    project.remove(ACTIVE);
    let answer = allow(project);
    match marked {
        Ok(()) => answer,
        Err(why) => answer.warn(&why),
    }
}

fn block(
    project: &Project<'_>,
    payload: &Payload,
    outlook: &Outlook<'_>,
    claimed: &[&Task],
) -> Answer {
    let completed = outlook.completed();
    let blocks = 1 + blocks_so_far(project, completed);
    if payload.is_kept_going() && blocks > BLOCKS_MAX {
        return allow(project).warn(&format!(
            "kept going {BLOCKS_MAX} times without completing anything: this agent may stop"
        ));
    }
    if let Err(why) = project.write(COUNTER, &format!("{blocks},{completed}")) {
        // Without its counter this could go on for ever.
        if payload.is_kept_going() {
            return allow(project).warn(&format!("{why}: this agent may stop"));
        }
        return Answer::block(&reason(outlook, claimed)).warn(&why);
    }
    Answer::block(&reason(outlook, claimed))
}

/// Returns how often the agent was kept in a row since something was last completed. An invalid
/// file counts as none.
fn blocks_so_far(project: &Project<'_>, completed: usize) -> u64 {
    let text = project.read(COUNTER).unwrap_or_default();
    let Some((blocks, then)) = text.trim().split_once(',') else { return 0 };
    match (blocks.trim().parse::<u64>(), then.trim().parse::<usize>()) {
        (Ok(blocks), Ok(then)) if completed <= then => blocks.min(BLOCKS_MAX),
        _ => 0,
    }
}

fn reason(outlook: &Outlook<'_>, claimed: &[&Task]) -> String {
    let mut text = String::from("HARNESS: the ledger has work left, so do not stop yet.\n");
    text += &format!("HARNESS: {}\n", outlook.summary());
    for task in claimed.iter().take(NAMED_MAX) {
        text += &format!("HARNESS: in progress: {}{}\n", outlook::named(task), holder(task));
    }
    text + "Go on: finish your task in progress, then take the next one (`harness task claim`). \
            Report progress with `harness task checkpoint`. `harness task complete` runs the \
            task's check; a task counts as done only when that passes. If you cannot go on, \
            give the reason with `harness task fail`. Leave a task that another worker holds alone; \
            if that worker is gone, `harness task release ID` makes it free again."
}

/// Returns a text such as ` (worker-1, until 2025-07-01T10:30:00Z)`.
fn holder(task: &Task) -> String {
    let by = outlook::owner(task).map(|by| escape(by).into_owned());
    let until = task.lease_expires_at().map(|until| format!("until {until}"));
    let both: Vec<String> = by.into_iter().chain(until).collect();
    if both.is_empty() { String::new() } else { format!(" ({})", both.join(", ")) }
}

fn unreadable(why: &str) -> String {
    format!(
        "HARNESS: CONFIG error: {why}\n\
         Do not stop yet: it is unknown what is left. Look at harness-tasks.json and fix it; \
         harness-tasks.json.bak is the previous version, and `harness doctor` shows what is wrong."
    )
}
