//! One handler per verb.

mod attempt;
mod budget;
mod claim;
mod complete;
mod gate;
mod leave;
mod ledger;
mod plan;
mod state;
mod subscribe;
mod talk;
mod transaction;

use std::sync::Arc;

use harness_core::Command;

use super::{
    Daemon, beside,
    refused::busy,
    server::{Duty, Host},
};
use crate::{
    process::ancestry::Peer,
    protocol::{Answer, Call, PROTOCOL, Pong, Refused, Request},
};

pub(super) use gate::Tried;
pub(super) use subscribe::subscribe;

/// The result of a handler.
pub(super) type Handled = Result<Answer, Refused>;

/// Handles all verbs except `subscribe`, which has no single answer. A caller without permission
/// learns nothing else.
pub(super) async fn handle(host: &Host, peer: &Peer, call: &Call) -> Handled {
    let request = call.request();
    super::permit::permit(host, peer, call, request.as_ref().ok()).await?;
    if call.verb()?.needs_daemon() {
        daemon(host)?;
    }
    let request = request?;
    if matches!(host.duty, Duty::Shared(_)) && request.ends_work() {
        return Err(busy());
    }
    if let Some(answer) = beside::of_worker(host, call, &request).await {
        return answer;
    }
    let own = of_this_process(host, peer, request).await;
    beside::of_everyone(host, call, own).await
}

/// Handles a request in this process.
async fn of_this_process(host: &Host, peer: &Peer, request: Request) -> Handled {
    match request {
        Request::Ping => Ok(ping()),
        Request::GetState => state::get_state(host).await,
        Request::Status { event_count } => state::status(host, event_count).await,
        Request::PhaseEdit(edit) => ledger::edit_phase(host, peer, edit).await,
        Request::PhaseRemove { name } => ledger::remove_phase(host, peer, name).await,
        Request::SessionConfigure(of) => ledger::configure(host, peer, of).await,
        Request::TaskAdd(add) => ledger::add(host, peer, add).await,
        Request::TaskEdit(edit) => ledger::edit(host, peer, edit).await,
        Request::TaskRemove { task_id } => ledger::remove(host, task_id).await,
        Request::TaskRetry(of) => ledger::retry(host, of).await,
        Request::TaskRelease(of) => ledger::release(host, of).await,
        Request::TaskCheckpoint(of) => attempt::checkpoint(host, of).await,
        Request::TaskRenew(renewal) => attempt::renew(host, renewal).await,
        Request::TaskComplete(of) => complete::complete(host, of).await,
        Request::TaskFail(of) => attempt::fail(host, of).await,
        Request::Ask(inquiry) => talk::ask(host, inquiry).await,
        Request::Questions => Ok(talk::questions(host)),
        Request::Reply(reply) => talk::reply(host, peer, reply),
        Request::Send(message) => talk::send(host, message),
        Request::Abort { reason } => talk::abort(host, peer, reason.as_deref()).await,
        Request::Kick => Ok(talk::kick(host)),
        Request::Pause => ledger::pause(host, peer).await,
        Request::Resume => ledger::resume(host, peer).await,
        Request::Budget(of) => budget::budget(host, peer, of).await,
        Request::Ack => apply(host, Command::Acknowledge).await,
        Request::TaskClaim(claim) => claim::claim(host, daemon(host)?, claim).await,
        Request::PlanImport(plan) => plan::import(host, daemon(host)?, peer, plan).await,
        Request::WorkerTransaction(of) => transaction::transaction(host, of).await,
        Request::PlanReset => plan::reset(host).await,
        Request::Shutdown => Ok(leave::shutdown(daemon(host)?)),
        Request::Yield => leave::make_way(host, daemon(host)?).await,
        // The permission was checked before. The connection streams the events.
        Request::May { .. } | Request::Subscribe(_) => Ok(Answer::Nothing {}),
    }
}

fn ping() -> Answer {
    Answer::Pong(Pong {
        running: true,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PROTOCOL,
    })
}

/// Returns the daemon, for requests that a run refuses because it holds the ledger exclusively.
fn daemon(host: &Host) -> Result<&Arc<Daemon>, Refused> {
    host.daemon().ok_or_else(busy)
}

/// Applies the command, then returns its answer.
async fn apply(host: &Host, command: Command) -> Handled {
    host.writer.apply_async(command).await?.try_into()
}
