//! What there is to see.

use harness_core::{Ledger, Stats, task::Status};
use serde_json::{Value, json};

use super::super::{
    request::{Answer, Request},
    server::Host,
    wire::{self, Refused},
};
use crate::{
    store::{StoreError, WriterError},
    trajectory,
};

const EVENTS: u64 = 10;
const EVENTS_MAX: u64 = 1000;

/// What `look` makes of the ledger as it stands; `None` where there is none.
pub(super) async fn seen<T: Send + 'static>(
    host: &Host,
    look: impl FnOnce(&Ledger) -> T + Send + 'static,
) -> Result<Option<T>, Refused> {
    match host.writer.look_async(look).await {
        Ok(seen) => Ok(Some(seen)),
        Err(WriterError::Store(why)) if matches!(*why, StoreError::NoLedger { .. }) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

pub(super) async fn get_state(host: &Host) -> Answer {
    Ok(seen(host, wire::state).await?.unwrap_or(Value::Null))
}

pub(super) async fn status(host: &Host, request: &Request) -> Answer {
    let count = request.number("event_count")?.unwrap_or(EVENTS).min(EVENTS_MAX);
    let count = usize::try_from(count).unwrap_or(0);
    let root = host.root.clone();
    let events = tokio::task::spawn_blocking(move || trajectory::last(&root, count)).await;
    let events = events.map_err(|why| why.to_string())?.unwrap_or_default();
    let mut status = seen(host, summary).await?.unwrap_or_else(|| {
        let summary = json!({ "total": 0, "completed": 0, "running": 0, "pending": 0,
            "failed": 0, "blocked": 0 });
        json!({ "active": false, "summary": summary, "tasks": {}, "events": [],
            "active_workers": [] })
    });
    status["events"] = events.into();
    Ok(status)
}

fn summary(ledger: &Ledger) -> Value {
    let stats = Stats::of(ledger);
    let mut workers: Vec<_> = ledger
        .tasks()
        .filter(|task| task.status() == Status::InProgress)
        .filter_map(|task| task.claimed_by().cloned())
        .collect();
    workers.sort();
    workers.dedup();
    json!({
        "active": true,
        "summary": { "total": stats.total, "completed": stats.completed,
            "running": stats.in_progress, "pending": stats.pending, "failed": stats.failed,
            "blocked": stats.blocked },
        "tasks": wire::state(ledger)["tasks"],
        "events": [],
        "active_workers": workers,
    })
}
