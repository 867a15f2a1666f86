//! A worker on one line.

use harness::view::{View, WorkerCard, WorkerCondition};
use harness_core::Timestamp;

use crate::{
    paint::{Paint, one_line},
    task_line::Span,
};

/// Returns a line for each worker, if there are several or some that are registered. The lines of the
/// tasks already name the only worker of a ledger.
pub(super) fn lines(view: &View<'_>, paint: Paint) -> Vec<String> {
    let registered = view.workers.iter().any(|worker| worker.pid.is_some());
    if !registered && view.target.is_none() {
        return Vec::new();
    }
    view.workers.iter().map(|worker| line(worker, view.time, paint)).collect()
}

/// Returns the line of a worker.
pub(crate) fn line(worker: &WorkerCard, now: Timestamp, paint: Paint) -> String {
    let lead = format!("{} {}:", paint.heading("worker"), one_line(&worker.id));
    let Some(task) = &worker.task_id else {
        return format!("{lead} {}", worker.state.name());
    };
    let title = one_line(worker.title.as_deref().unwrap_or_default());
    let text = format!("{lead} {task} {title} ({})", times(worker, now));
    match (worker.state, worker.landing) {
        (WorkerCondition::Landing, Some(place)) => format!("{text} — landing, place {place}"),
        (WorkerCondition::Gone, _) => format!("{text} — gone"),
        _ => text,
    }
}

fn times(worker: &WorkerCard, now: Timestamp) -> String {
    let elapsed = worker.claimed_at.filter(|at| *at <= now).map_or(0, |at| now.since(at));
    let lease = match worker.lease_expires_at {
        None => "no lease".to_owned(),
        Some(end) if end <= now => "lease ran out".to_owned(),
        Some(end) => format!("lease {} s", end.since(now)),
    };
    format!("{}, {lease}", Span(elapsed))
}
