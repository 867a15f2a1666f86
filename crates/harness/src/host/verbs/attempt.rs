//! What those ask for who work on a task.

use harness_core::{
    Category, Command, Holder, Refusal, Task, Timestamp,
    command::{AddCheckpoint, Attempts, Fail, Renew},
    task::Via,
};
use serde_json::json;

use super::{
    super::{
        request::{Answer, Request},
        server::{Duty, Host},
        wire::Refused,
    },
    apply,
};
use crate::workspace;

/// In a run the tree goes with it, so that a later session can tell whether the work is still there.
pub(super) async fn checkpoint(host: &Host, request: &Request) -> Answer {
    let holder = request.holder()?;
    let step = request.small("step")?.ok_or_else(|| "step is required".to_owned())?;
    let total = request.small("total")?.ok_or_else(|| "total is required".to_owned())?;
    let description =
        request.text("description")?.ok_or_else(|| "description is required".to_owned())?;
    // A client that sends more than that waits, and holds up nobody else.
    while let Some(wait) = host.desk.checkpoint_waits(&holder.task) {
        tokio::time::sleep(wait).await;
    }
    let tree = match host.workspace.clone() {
        None => None,
        Some(workspace) => workspace::tree_for_checkpoint(workspace).await,
    };
    let lease_seconds = host.lease_seconds;
    let checkpoint = AddCheckpoint { holder, step, total, description, tree, lease_seconds };
    extend(host, Command::Checkpoint(checkpoint), request).await
}

/// Makes it true, and measures the lease that it gives.
async fn extend(host: &Host, command: Command, request: &Request) -> Answer {
    let holder = request.holder()?;
    let answer = apply(host, command).await?;
    if let Duty::Daemon(daemon) = &host.duty {
        let end = answer["lease_expires_at"].as_str().and_then(|end| Timestamp::parse(end).ok());
        daemon.gave(&host.root, &holder.task, &holder.worker, end);
    }
    Ok(answer)
}

pub(super) async fn renew(host: &Host, request: &Request) -> Answer {
    let (holder, lease_seconds) = (request.holder()?, host.lease_seconds);
    extend(host, Command::Renew(Renew { holder, lease_seconds }), request).await
}

/// The task, if it is claimed by the run for this holder.
pub(super) async fn run_task(host: &Host, holder: &Holder) -> Result<Option<Task>, Refused> {
    let id = holder.task.clone();
    let task = host.writer.look_async(move |ledger| ledger.task(&id).cloned()).await?;
    Ok(task.filter(|task| task.claimed_via() == Via::Run && holder.holds(task)))
}

/// Of a task of the run: the attempt ends, with a rollback, and counts.
pub(super) async fn fail(host: &Host, request: &Request) -> Answer {
    let holder = request.holder()?;
    let message = request.text("message")?.ok_or_else(|| "message is required".to_owned())?;
    let category = match request.text("category")? {
        None => Category::TaskExec,
        Some(text) => {
            text.parse().map_err(|why: harness_core::category::UnknownCategory| why.to_string())?
        }
    };
    if let Some(task) = run_task(host, &holder).await? {
        let retryable = task.attempts + 1 < task.max_attempts;
        if host.desk.give_up(&holder, category, message) {
            return Ok(json!({ "task_id": task.id, "retryable": retryable }));
        }
        return Err(Refusal::Undecided { task: task.id }.into());
    }
    let attempts = Attempts::One;
    let fail = Fail { holder, category, message, attempts, rolled_back_to: None };
    apply(host, Command::Fail(fail)).await
}
