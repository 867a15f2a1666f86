//! A session with an objective. It goes on until it has given its promise, or was sent back as
//! often as allowed.
//!
//! A hook cannot clear the context of a session, as `harness run OBJECTIVE` does between two
//! iterations. The agent summarizes its context by itself, and the objective is repeated each time.

use harness_core::promise::{Match, is_kept};
use serde_json::json;

use super::{
    Answer,
    binding::{Binding, Pursuit},
    payload::Payload,
    pre_compact::handoff,
    project::{Project, shortened},
};

/// The limits of a message to an agent, and of the objective in it, which must leave room for the
/// rest.
const TEXT_CHARACTERS: usize = 10_000;
const OBJECTIVE_CHARACTERS: usize = 6000;
const HANDOFF_CHARACTERS: usize = 2000;

/// Returns whether the agent may end its turn.
pub(super) fn stop(
    project: &Project<'_>,
    session: &str,
    mut pursuit: Pursuit,
    payload: &Payload,
) -> Answer {
    let text = payload.text("last_assistant_message").unwrap_or_default();
    if is_kept(text, &pursuit.promise, Match::default()) {
        Binding::remove(project, session);
        return Answer::silent();
    }
    // A turn without text is an intermediate step. Their number is limited too.
    let counter = match text.trim() {
        "" => &mut pursuit.silent_turns,
        _ => &mut pursuit.restarts,
    };
    *counter = counter.saturating_add(1);
    if *counter > pursuit.max_restarts {
        Binding::remove(project, session);
        let message = format!(
            "HARNESS: this session was sent back to its objective {} times and did not say {}. \
             Type /harness with the objective to go on.",
            pursuit.max_restarts, pursuit.promise
        );
        return Answer::json(&json!({ "systemMessage": message }));
    }
    let reason = continuation(project, &pursuit);
    match Binding::Objective(pursuit).write(project, session) {
        Ok(()) => Answer::block(&reason),
        // Without its counter this could go on for ever.
        Err(why) => Answer::silent().warn(&format!("{why}: this agent may stop")),
    }
}

/// Returns the text that an agent reads besides the objective that was typed.
pub(super) fn beginning(pursuit: &Pursuit) -> String {
    format!(
        "HARNESS: work on this objective now. You are sent back to it until you have said {}, at most \
         {} times.\n{}",
        pursuit.promise,
        pursuit.max_restarts,
        promise(pursuit)
    )
}

fn continuation(project: &Project<'_>, pursuit: &Pursuit) -> String {
    format!(
        "HARNESS: you did not say {}, so the objective is not done. Restart {} of {}.\n\
         You are continuing a long-running task. Review your workspace files and the git log, and go on \
         from where the work stands. Do not start over.\n{}",
        pursuit.promise,
        pursuit.restarts,
        pursuit.max_restarts,
        state(project, pursuit)
    )
}

/// Returns the text for a context that begins in the middle of the work.
pub(super) fn state(project: &Project<'_>, pursuit: &Pursuit) -> String {
    let mut text = format!("Objective:\n{}\n", shortened(&pursuit.objective, OBJECTIVE_CHARACTERS));
    if let Some(handoff) = handoff(project.path()) {
        text += &format!("[RESUMED STATE]\n{}\n", shortened(&handoff, HANDOFF_CHARACTERS));
    }
    shortened(&(text + &promise(pursuit)), TEXT_CHARACTERS)
}

fn promise(pursuit: &Pursuit) -> String {
    format!(
        "Keep state/handoff.json up to date as you go. When all of it is done, and you have checked that \
         it is, end your last message with {} on a line of its own. If you cannot go on without the user, \
         ask with `harness ask`.",
        pursuit.promise
    )
}
