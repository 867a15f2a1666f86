//! One handler per verb.

mod attempt;
mod claim;
mod complete;
mod gate;
mod leave;
mod ledger;
mod plan;
mod state;
mod subscribe;
mod talk;

use std::sync::Arc;

use harness_core::{Command, Reply, command::Code};
use serde_json::{Value, json};

use super::{
    Daemon,
    request::{Answer, Request},
    server::{Duty, Host},
    wire::{self, Refused},
};
use crate::process::ancestry::Peer;

pub(super) use gate::Tried;
pub(super) use subscribe::subscribe;

/// All verbs but `subscribe`, which has no one answer.
pub(super) async fn handle(host: &Host, peer: &Peer, request: &Request) -> Answer {
    super::permit::permit(host, peer, request).await?;
    match request.command.as_str() {
        "ping" => Ok(ping()),
        "get_state" => state::get_state(host).await,
        "status" => state::status(host, request).await,
        "task_add" => ledger::add(host, peer, request).await,
        "task_edit" => ledger::edit(host, peer, request).await,
        "task_remove" => ledger::remove(host, request).await,
        "task_retry" => ledger::retry(host, request).await,
        "task_release" => ledger::release(host, request).await,
        "task_checkpoint" => attempt::checkpoint(host, request).await,
        "task_renew" => attempt::renew(host, request).await,
        "task_complete" => complete::complete(host, request).await,
        "task_fail" => attempt::fail(host, request).await,
        "ask" => talk::ask(host, request).await,
        "questions" => Ok(talk::questions(host)),
        "reply" => talk::reply(host, peer, request),
        "send" => talk::send(host, request),
        "abort" => talk::abort(host, request),
        "kick" => Ok(talk::kick(host)),
        "ack" => apply(host, Command::Acknowledge).await,
        "task_claim" => claim::claim(host, daemon(host)?, request).await,
        "plan_import" => plan::import(host, daemon(host)?, peer, request).await,
        "plan_reset" => plan::reset(host, daemon(host)?).await,
        "shutdown" => Ok(leave::shutdown(daemon(host)?)),
        "yield" => leave::make_way(host, daemon(host)?).await,
        // The permission was checked before the handler is called.
        "may" => Ok(json!({})),
        unknown => Err(wire::unknown_command(unknown)),
    }
}

fn ping() -> Value {
    json!({
        "running": true,
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": wire::PROTOCOL,
    })
}

/// For what a run does not do: it has the ledger for itself.
fn daemon(host: &Host) -> Result<&Arc<Daemon>, Refused> {
    match &host.duty {
        Duty::Daemon(daemon) => Ok(daemon),
        Duty::Run => Err(wire::busy()),
    }
}

/// Makes it true, then says so.
async fn apply(host: &Host, command: Command) -> Answer {
    let reply = host.writer.apply_async(command).await?;
    match reply {
        Reply::Task(task) => Ok(json!({ "task_id": task })),
        Reply::Lease { task, expires_at } => {
            Ok(json!({ "task_id": task, "lease_expires_at": expires_at }))
        }
        Reply::Failed { task, retryable } => Ok(json!({ "task_id": task, "retryable": retryable })),
        Reply::Noted => Ok(json!({})),
        other => Err(Refused::new(Code::Failed, format!("unexpected answer: {other:?}"))),
    }
}
