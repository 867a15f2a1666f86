//! Decides whether the peer may do what it asks for. Core has the table. This module determines the
//! circumstances, and records refusals.

use harness_core::{
    Command, Flag, Refusal, TaskId, Timestamp,
    command::{Authority, Import, ImportMode, Raise},
    plan::Plan,
    role::{Circumstances, Lease, Merge, Operation, Role, Whose, may},
};

use super::server::Host;
use crate::{
    clock::{Clock as _, SystemClock},
    process::ancestry::Peer,
    protocol::{Call, Refused, Request},
};

/// Refuses what the role of `peer` does not allow, with a warning in the log and a flag on the
/// attempt. A request that cannot be read is also refused by its operation.
pub(super) async fn permit(
    host: &Host,
    peer: &Peer,
    call: &Call,
    request: Option<&Request>,
) -> Result<(), Refused> {
    if peer.role == Role::Operator {
        return Ok(());
    }
    let operation = request.map_or_else(|| call.operation(), Request::operation)?;
    let given = match request {
        Some(request) => circumstances(host, peer, request).await,
        None => Circumstances { adding: host.adding, ..Circumstances::default() },
    };
    match may(peer.role, operation, given).map_err(Refusal::from) {
        Ok(()) => Ok(()),
        Err(refusal) => {
            // A worker that cannot be attributed, as in a container, goes on with the files.
            if (peer.role, operation) != (Role::Worker, Operation::Transact) {
                record(host, peer, operation, &refusal).await;
            }
            Err(refusal.into())
        }
    }
}

async fn circumstances(host: &Host, peer: &Peer, request: &Request) -> Circumstances {
    let mut given = Circumstances { adding: host.adding, ..Circumstances::default() };
    match request {
        // The question is about the operation alone, so the worst case counts.
        Request::May { .. } => {
            given = Circumstances { whose: Whose::Other, merge: Merge::Awaited, ..given };
        }
        Request::TaskRelease(of) => given.lease = lease(host, of.task_id.clone()).await,
        Request::PlanImport(plan) if plan.mode == ImportMode::Merge => {
            given.merge = merge(host, &plan.content).await;
        }
        // A completion by force has no holder.
        Request::TaskComplete(of) if of.authority == Authority::Force => {}
        other => {
            if let (Role::Agent, Some(holder)) = (peer.role, other.holder()) {
                let own = peer.attempt.as_ref();
                given.whose = own.map_or(Whose::Other, |own| own.whose(holder));
            }
        }
    }
    given
}

async fn lease(host: &Host, task: TaskId) -> Lease {
    let now = now(host);
    let lapsed = host.writer.look_async(move |ledger| {
        let end = ledger.task(&task).and_then(|task| task.lease_expires_at());
        end.is_some_and(|end| end <= now)
    });
    if lapsed.await.unwrap_or(false) { Lease::Lapsed } else { Lease::Live }
}

fn now(host: &Host) -> Timestamp {
    host.daemon().map_or_else(|| SystemClock.now(), |daemon| daemon.clock.now())
}

async fn merge(host: &Host, content: &str) -> Merge {
    // A plan that cannot be read is refused for that reason.
    let Ok(plan) = Plan::read(content) else { return Merge::OnlyAdds };
    let import = Import { plan, mode: ImportMode::Merge, by: None };
    let awaited = host.writer.look_async(move |ledger| import.is_awaited(ledger)).await;
    if awaited.unwrap_or(false) { Merge::Awaited } else { Merge::OnlyAdds }
}

/// Records one warning per attempt and operation. If it cannot be written, the operation is still
/// refused.
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
        tracing::warn!(%why, "the refusal could not be logged");
    }
}

/// Returns the task that a worker holds.
async fn held(host: &Host, peer: &Peer) -> Option<TaskId> {
    let worker = peer.worker.clone()?;
    let held =
        host.writer.look_async(move |ledger| ledger.selection().held_by(&worker).next().cloned());
    held.await.ok().flatten()
}
