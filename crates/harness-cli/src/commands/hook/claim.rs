//! `claim`: claims the next task, and always answers with JSON.

use harness::protocol::TaskClaim;
use harness_core::{WorkerId, ledger::ConcurrencyMode, role::Operation};
use serde_json::{Value, json};

use super::{Answer, outlook, payload::Payload, project};
use crate::{invocation::Invocation, root::StateRoot, worker};

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
    // The ledger is read first, because a hook does not restore a broken one.
    let ledger = project::look(root)?;
    let mode = ledger.head().session_config.concurrency_mode;
    let worker = worker_id(invocation, root, payload, mode)?;
    let lease = invocation.lease_seconds().map_err(|failure| failure.error)?;
    let claim = TaskClaim::any(worker.clone()).lease(Some(lease));
    let claimed = super::with_client(invocation, root, |client| client.claim(claim));
    let Some(claimed) = claimed.map_err(|failure| failure.error)? else { return Ok(None) };
    Ok(Some(json!({
        "claimed": true,
        "worker_id": worker,
        "task_id": claimed.task.id,
        "title": claimed.task.description,
        "lease_expires_at": claimed.task.lease_expires_at(),
    })))
}

/// Returns the worker. With several workers each must name itself. A session that works alone keeps
/// a name derived from its own, so that it gets the same task when it asks again.
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
