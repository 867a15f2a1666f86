//! `claim`: takes the next task, and always answers with JSON.

use harness::{
    host::{client::ANSWER_WITHIN, wire},
    workspace::glance,
};
use harness_core::{
    Command, Reply, WorkerId,
    command::{Claim, Place},
    ledger::ConcurrencyMode,
    role::Operation,
    task::Via,
};
use serde_json::{Value, json};

use super::{Answer, outlook, payload::Payload, project};
use crate::{commands::Invocation, host::Asked, root::StateRoot, worker};

pub(super) fn answer(
    invocation: &Invocation,
    root: Option<&StateRoot>,
    payload: &Payload,
) -> Answer {
    let claimed = claim(invocation, root, payload);
    let document = match claimed {
        Ok(Some(claimed)) => claimed,
        Ok(None) => json!({ "claimed": false }),
        Err(error) => json!({ "claimed": false, "error": error }),
    };
    Answer::json(&document)
}

fn claim(
    invocation: &Invocation,
    root: Option<&StateRoot>,
    payload: &Payload,
) -> Result<Option<Value>, String> {
    let root = root.ok_or("state root not found")?;
    invocation.permit(root, Operation::Claim).map_err(|failure| failure.error)?;
    // Looked at first: a hook brings no broken ledger back.
    let ledger = project::look(root)?;
    let mode = ledger.head().session_config.concurrency_mode;
    let worker = worker_id(invocation, root, payload, mode)?;
    let claim = Claim {
        worker: worker.clone(),
        via: Via::Client,
        role: None,
        only: None,
        lease_seconds: invocation.lease_seconds().map_err(|failure| failure.error)?,
        place: Place::default(),
    };
    let task = match by_host(invocation, root, &claim)? {
        Some(task) => task,
        None => by_files(invocation, root, claim)?,
    };
    if task.is_null() {
        return Ok(None);
    }
    Ok(Some(json!({
        "claimed": true,
        "worker_id": worker,
        "task_id": task["id"],
        "title": task["description"],
        "lease_expires_at": task["lease_expires_at"],
    })))
}

/// Among several workers each has to say who it is. Alone, a session keeps the name that is made of
/// its own, so that asking again gives the same task again.
fn worker_id(
    invocation: &Invocation,
    root: &StateRoot,
    payload: &Payload,
    mode: ConcurrencyMode,
) -> Result<WorkerId, String> {
    if let Some(told) = outlook::worker(&invocation.env) {
        return WorkerId::parse(told).map_err(|bad| format!("HARNESS_WORKER_ID: {bad}"));
    }
    if mode == ConcurrencyMode::Concurrent {
        return Err("missing HARNESS_WORKER_ID".to_owned());
    }
    let here = || Ok(root.clone());
    let made = match payload.text("session_id") {
        Some(session) => worker::of_session(&invocation.env, Some(session), here),
        None => worker::Choice::default().id(&invocation.env, here),
    };
    made.map_err(|failure| failure.error)
}

/// Whoever serves the root is asked; nobody is started for a hook.
fn by_host(
    invocation: &Invocation,
    root: &StateRoot,
    claim: &Claim,
) -> Result<Option<Value>, String> {
    let Some(request) = wire::request(&Command::Claim(claim.clone())) else { return Ok(None) };
    match invocation.ask_host(root, request, Some(ANSWER_WITHIN)) {
        Ok(Asked::Answered(data)) => Ok(Some(data["task"].clone())),
        Ok(Asked::Nobody) => Ok(None),
        Err(failure) => Err(failure.error),
    }
}

fn by_files(invocation: &Invocation, root: &StateRoot, mut claim: Claim) -> Result<Value, String> {
    claim.place.base = glance::head(root.path());
    let applied = invocation.apply_archiving(root, Command::Claim(claim));
    match applied.map_err(|failure| failure.error)?.0 {
        Reply::Claimed(claimed) => {
            invocation.keep_rules(root, &claimed);
            Ok(wire::task(&claimed.task))
        }
        Reply::NothingToClaim => Ok(Value::Null),
        other => Err(format!("unexpected answer: {other:?}")),
    }
}
