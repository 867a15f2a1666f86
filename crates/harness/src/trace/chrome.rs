//! The trace event format of Chrome, for a flame chart without a collector: `chrome://tracing`,
//! Perfetto or speedscope.

use std::collections::BTreeMap;

use harness_core::trace::SpanId;
use serde_json::{Map, Value, json};

use super::{Attribute, Span};

/// The number of the row that the run itself is drawn on.
const RUN_ROW: usize = 0;

/// Returns the document with these spans. Attempts at the same time are drawn on rows of their own.
pub fn document(spans: &[Span]) -> Value {
    let rows = rows(spans);
    let row = |span: &Span| rows.get(&span.id).copied().unwrap_or(RUN_ROW);
    let most = rows.values().copied().max().unwrap_or(RUN_ROW);
    let mut events = vec![metadata("process_name", RUN_ROW, "harness".to_owned())];
    for number in RUN_ROW..=most {
        let name = if number == RUN_ROW { "run".to_owned() } else { format!("worker {number}") };
        events.push(metadata("thread_name", number, name));
    }
    events.extend(spans.iter().map(|span| event(span, row(span))));
    json!({ "traceEvents": events, "displayTimeUnit": "ms" })
}

fn metadata(kind: &str, row: usize, name: String) -> Value {
    json!({ "name": kind, "ph": "M", "pid": 1, "tid": row, "args": { "name": name } })
}

fn event(span: &Span, row: usize) -> Value {
    let task = span.attributes.iter().find_map(|(name, value)| match (*name, value) {
        ("harness.task.id", Attribute::Text(task)) => Some(task.as_str()),
        _ => None,
    });
    let name = task.map_or_else(|| span.name.clone(), |task| format!("{} {task}", span.name));
    let mut arguments: Map<String, Value> =
        span.attributes.iter().map(|(name, value)| ((*name).to_owned(), plain(value))).collect();
    arguments.extend(span.error.clone().map(|kind| ("error".to_owned(), kind.into())));
    json!({
        "name": name, "cat": "harness", "ph": "X", "pid": 1, "tid": row,
        "ts": span.start_ms.saturating_mul(1000),
        "dur": span.end_ms.saturating_sub(span.start_ms).saturating_mul(1000),
        "args": arguments,
    })
}

fn plain(value: &Attribute) -> Value {
    match value {
        Attribute::Text(text) => text.as_str().into(),
        Attribute::Int(number) => (*number).into(),
        Attribute::Float(number) => (*number).into(),
        Attribute::Bool(yes) => (*yes).into(),
    }
}

/// Returns the row of each span. An attempt gets the first row that is free when it begins, and its
/// parts are drawn on the same one.
fn rows(spans: &[Span]) -> BTreeMap<SpanId, usize> {
    let mut attempts: Vec<&Span> = spans.iter().filter(|span| span.name == "attempt").collect();
    attempts.sort_by_key(|span| (span.start_ms, span.id));
    let mut free_from: Vec<i64> = Vec::new();
    let mut rows = BTreeMap::new();
    for attempt in attempts {
        let free = free_from.iter().position(|until| *until <= attempt.start_ms);
        let at = free.unwrap_or_else(|| {
            free_from.push(0);
            free_from.len() - 1
        });
        free_from[at] = attempt.end_ms;
        rows.insert(attempt.id, at + 1);
    }
    let parents: BTreeMap<SpanId, Option<SpanId>> =
        spans.iter().map(|span| (span.id, span.parent)).collect();
    for span in spans {
        let mut at = Some(span.id);
        // A trace is a few levels deep.
        for _ in 0..8 {
            let Some(id) = at else { break };
            if let Some(row) = rows.get(&id).copied() {
                rows.insert(span.id, row);
                break;
            }
            at = parents.get(&id).copied().flatten();
        }
    }
    rows
}
