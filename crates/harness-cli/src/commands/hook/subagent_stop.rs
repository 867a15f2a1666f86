//! `subagent-stop`: an agent that another one started wants to end, perhaps while it holds a task.

use super::{
    Answer,
    outlook::{Outlook, identities, named},
    payload::Payload,
    project::Project,
};
use crate::environment::Environment;

pub(super) fn answer(env: &Environment, project: &Project<'_>, payload: &Payload) -> Answer {
    if payload.is_kept_going() {
        return Answer::silent();
    }
    // A subagent cannot fix a ledger. The hook at the stop of the session reports the problem.
    let Ok(ledger) = project.ledger() else { return Answer::silent() };
    if payload.is_compaction() {
        return Answer::silent();
    }
    let outlook = Outlook::of(&ledger);
    if outlook.in_progress.is_empty() {
        return Answer::silent();
    }
    let mine = if outlook.is_concurrent() {
        let me = identities(env, payload, &["agent_id", "teammate_name"]);
        if me.is_empty() {
            return Answer::block(
                "HARNESS: tasks are in progress, and without a worker identity it is unknown \
                 whether one is yours. Set HARNESS_WORKER_ID to the worker that claimed it, or give \
                 the task back with `harness task release`.",
            );
        }
        outlook.of_workers(&me)
    } else {
        outlook.in_progress
    };
    match mine.first() {
        Some(task) => Answer::block(&format!(
            "HARNESS: a task is still in progress: {}\n\
             Finish it before you stop: `harness task complete`, or `harness task fail` with the \
             reason.",
            named(task)
        )),
        None => Answer::silent(),
    }
}
