//! Whether the peer may do what it asks for. The table is the core's; here is found out what it depends on, and
//! what was refused is recorded.

use harness_core::{
    Command, Flag, Refusal, TaskId, Timestamp,
    command::{Import, ImportMode, Raise},
    plan::Plan,
    role::{Circumstances, Lease, Merge, Operation, Role, Whose, may},
};

use super::{
    request::Request,
    server::{Duty, Host},
    wire::{self, Refused},
};
use crate::{
    clock::{Clock as _, SystemClock},
    process::ancestry::Peer,
};

/// Refuses what the role of `peer` does not allow, with a warning in the log and a flag on the attempt.
pub(super) async fn permit(host: &Host, peer: &Peer, request: &Request) -> Result<(), Refused> {
    if peer.role == Role::Operator {
        return Ok(());
    }
    let operation = operation(request)?;
    let given = circumstances(host, peer, operation, request).await?;
    match may(peer.role, operation, given) {
        Ok(()) => Ok(()),
        Err(refusal) => {
            record(host, peer, operation, &refusal).await;
            Err(refusal.into())
        }
    }
}

/// What a request asks for. A verb that the table does not know is unknown to all but the operator.
fn operation(request: &Request) -> Result<Operation, Refused> {
    use Operation as O;
    Ok(match request.command.as_str() {
        "ping" | "get_state" | "status" | "questions" | "subscribe" => O::Look,
        "task_add" => O::Add,
        "task_edit" => O::Edit,
        "task_remove" => O::Remove,
        "task_retry" => O::Retry,
        "task_release" => O::Release,
        "task_checkpoint" => O::Checkpoint,
        "task_renew" => O::Renew,
        "task_complete" if request.flag("force")? => O::ForceComplete,
        "task_complete" => O::Complete,
        "task_fail" => O::Fail,
        "task_claim" => O::Claim,
        "plan_import" if request.flag("replace")? => O::ReplacePlan,
        "plan_import" if request.flag("merge")? => O::MergePlan,
        "plan_import" => O::BeginPlan,
        "plan_reset" => O::ResetPlan,
        "ask" => O::Ask,
        "reply" => O::Reply,
        "send" => O::Send,
        "abort" => O::Abort,
        "kick" => O::Kick,
        "ack" => O::Acknowledge,
        "shutdown" => O::Shutdown,
        // For a run that begins.
        "yield" => O::Run,
        "may" => {
            let word = request.text("operation")?;
            let word = word.ok_or_else(|| "operation is required".to_owned())?;
            O::parse(&word).ok_or_else(|| format!("operation: there is no {word:?}"))?
        }
        unknown => return Err(wire::unknown_command(unknown)),
    })
}

async fn circumstances(
    host: &Host,
    peer: &Peer,
    operation: Operation,
    request: &Request,
) -> Result<Circumstances, Refused> {
    use Operation as O;
    let mut given = Circumstances { adding: host.adding, ..Circumstances::default() };
    if request.command == "may" {
        // The question is about the operation alone: the worst case counts.
        return Ok(Circumstances { whose: Whose::Other, merge: Merge::Awaited, ..given });
    }
    match operation {
        O::Checkpoint | O::Renew | O::Complete | O::Fail if peer.role == Role::Agent => {
            let own = peer.attempt.as_ref();
            let holder = request.holder()?;
            given.whose = own.map_or(Whose::Other, |own| own.whose(&holder));
        }
        O::Release => given.lease = lease(host, request.task()?).await,
        O::MergePlan => given.merge = merge(host, request).await,
        _ => {}
    }
    Ok(given)
}

/// An agent works on one attempt, and speaks for no other.
async fn lease(host: &Host, task: TaskId) -> Lease {
    let now = now(host);
    let lapsed = host.writer.look_async(move |ledger| {
        let end = ledger.task(&task).and_then(|task| task.lease_expires_at);
        end.is_some_and(|end| end <= now)
    });
    if lapsed.await.unwrap_or(false) { Lease::Lapsed } else { Lease::Live }
}

fn now(host: &Host) -> Timestamp {
    match &host.duty {
        Duty::Daemon(daemon) => daemon.clock.now(),
        Duty::Run => SystemClock.now(),
    }
}

async fn merge(host: &Host, request: &Request) -> Merge {
    // A plan that cannot be read is refused for that.
    let Some(plan) = request.content().ok().and_then(|text| Plan::read(&text).ok()) else {
        return Merge::OnlyAdds;
    };
    let import = Import { plan, mode: ImportMode::Merge, by: None };
    let awaited = host.writer.look_async(move |ledger| import.is_awaited(ledger)).await;
    if awaited.unwrap_or(false) { Merge::Awaited } else { Merge::OnlyAdds }
}

/// One warning per attempt and operation. That it cannot be written does not make it allowed.
async fn record(host: &Host, peer: &Peer, operation: Operation, refusal: &Refusal) {
    let task = match &peer.attempt {
        Some(attempt) => Some(attempt.task.clone()),
        None => held(host, peer).await,
    };
    let of = peer.attempt.as_ref().map(ToString::to_string);
    let worker = peer.worker.as_ref().map(ToString::to_string);
    let key = format!("{} {of:?} {worker:?} {task:?} {}", peer.role, operation.name());
    if !host.desk.is_new(key) {
        return;
    }
    let message = format!("refused to {}: {refusal}", peer.author());
    let raise = Raise { task, flag: Flag::Verb, message };
    if let Err(why) = host.writer.apply_async(Command::Raise(raise)).await {
        tracing::warn!(%why, "what was refused could not be recorded");
    }
}

/// What a worker works on.
async fn held(host: &Host, peer: &Peer) -> Option<TaskId> {
    let worker = peer.worker.clone()?;
    let held =
        host.writer.look_async(move |ledger| ledger.selection().held_by(&worker).next().cloned());
    held.await.ok().flatten()
}
