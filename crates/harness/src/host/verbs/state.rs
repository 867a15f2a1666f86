//! What there is to see.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use harness_core::{Ledger, Stats, task::Status};
use serde_json::{Value, json};

use super::super::{
    request::{Answer, Request},
    server::Host,
    wire,
};
use crate::store::{StoreError, look};

const EVENTS: u64 = 10;
const EVENTS_MAX: u64 = 1000;
/// How far back the trajectory is read.
const TAIL_BYTES: u64 = 1024 * 1024;

/// As it stands; `None` where there is none.
pub(super) async fn ledger(host: &Host) -> Result<Option<Ledger>, String> {
    let root = host.root.clone();
    match tokio::task::spawn_blocking(move || look(&root)).await {
        Ok(Ok(ledger)) => Ok(Some(ledger)),
        Ok(Err(StoreError::NoLedger { .. })) => Ok(None),
        Ok(Err(why)) => Err(why.to_string()),
        Err(why) => Err(why.to_string()),
    }
}

pub(super) async fn get_state(host: &Host) -> Answer {
    Ok(ledger(host).await?.as_ref().map_or(Value::Null, wire::state))
}

pub(super) async fn status(host: &Host, request: &Request) -> Answer {
    let count = request.number("event_count")?.unwrap_or(EVENTS).min(EVENTS_MAX);
    let count = usize::try_from(count).unwrap_or(0);
    let path = host.root.join(".harness/trajectory.jsonl");
    let events = tokio::task::spawn_blocking(move || last_events(&path, count)).await;
    let events = events.map_err(|why| why.to_string())?.unwrap_or_default();
    let Some(ledger) = ledger(host).await? else {
        let summary = json!({ "total": 0, "completed": 0, "running": 0, "pending": 0,
            "failed": 0, "blocked": 0 });
        return Ok(json!({ "active": false, "summary": summary, "tasks": {}, "events": events,
            "active_workers": [] }));
    };
    let stats = Stats::of(&ledger);
    let mut workers: Vec<_> = ledger
        .tasks()
        .filter(|task| task.status == Status::InProgress)
        .filter_map(|task| task.claimed_by.clone())
        .collect();
    workers.sort();
    workers.dedup();
    Ok(json!({
        "active": true,
        "summary": { "total": stats.total, "completed": stats.completed,
            "running": stats.in_progress, "pending": stats.pending, "failed": stats.failed,
            "blocked": stats.blocked },
        "tasks": wire::state(&ledger)["tasks"],
        "events": events,
        "active_workers": workers,
    }))
}

/// The last entries of the trajectory, oldest first; lines that are broken are left out.
fn last_events(path: &Path, count: usize) -> io::Result<Vec<Value>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let lines = bytes.rsplit(|byte| *byte == b'\n');
    let entries = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut last: Vec<_> = entries.filter(Value::is_object).take(count).collect();
    last.reverse();
    Ok(last)
}
