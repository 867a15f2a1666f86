//! `renew`: extends the lease of a claim, and always answers with JSON.

use harness_core::{Epoch, Holder, TaskId, Timestamp, WorkerId, task::Status};
use serde_json::json;

use super::{Answer, outlook, payload::Payload, project};
use crate::{environment::Environment, invocation::Invocation, root::StateRoot};

pub(super) fn answer(
    invocation: &Invocation,
    root: Option<&StateRoot>,
    payload: &Payload,
) -> Answer {
    Answer::json(&match renew(invocation, root, payload) {
        Ok((task, expires_at)) => {
            json!({ "renewed": true, "task_id": task, "lease_expires_at": expires_at })
        }
        Err(error) => json!({ "renewed": false, "error": error }),
    })
}

fn renew(
    invocation: &Invocation,
    root: Option<&StateRoot>,
    payload: &Payload,
) -> Result<(TaskId, Timestamp), String> {
    let env = &invocation.env;
    let root = root.ok_or("state root not found")?;
    let worker = outlook::worker(env).ok_or("missing HARNESS_WORKER_ID")?;
    let of_environment = env.get("HARNESS_TASK_ID").and_then(|id| id.to_str());
    let id = payload.text("task_id").or(of_environment).ok_or("missing task_id")?;
    // The ledger is read first: a hook does not restore a broken one, and these errors are
    // promised.
    let ledger = project::look(root)?;
    let task = TaskId::parse(id).ok().and_then(|id| ledger.task(&id)).ok_or("task not found")?;
    if task.status() != Status::InProgress {
        return Err("task not in_progress".to_owned());
    }
    if outlook::owner(task) != Some(worker) {
        return Err("task owned by other worker".to_owned());
    }
    let holder = Holder {
        task: task.id.clone(),
        worker: WorkerId::recorded(worker),
        epoch: epoch(env, of_environment == Some(id))?,
    };
    let lease = Some(invocation.lease_seconds().map_err(|failure| failure.error)?);
    let renewed = super::with_client(invocation, root, |client| client.renew_for(holder, lease));
    let lease = renewed.map_err(|failure| failure.error)?;
    Ok((lease.task_id, lease.lease_expires_at))
}

/// `HARNESS_EPOCH` applies only to the task in `HARNESS_TASK_ID`.
fn epoch(env: &Environment, is_about_it: bool) -> Result<Option<Epoch>, String> {
    let Some(text) = env.get("HARNESS_EPOCH").filter(|_| is_about_it) else { return Ok(None) };
    let number = text.to_str().and_then(|text| text.trim().parse().ok());
    number.map(|n| Some(Epoch(n))).ok_or_else(|| "HARNESS_EPOCH is not a number".to_owned())
}
