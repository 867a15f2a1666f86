//! `GET /metrics`: the state of the project as OpenMetrics.

use std::{
    fmt::{Display, Write as _},
    sync::Arc,
};

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use harness::view::{Board, Spending, WorkerCondition};

use super::{reader::Reader, site::Site};
use crate::failure::Result;

const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(State(site): State<Arc<Site>>) -> Response {
    match site.maker.make(document).await {
        Ok(text) => ([(header::CONTENT_TYPE, KIND)], text).into_response(),
        Err(why) => super::answer::plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{why}\n")),
    }
}

fn document(reader: &Reader) -> Result<String> {
    Ok(text(&reader.board()?, &reader.spending()))
}

fn text(view: &Board, spending: &Spending) -> String {
    let mut out = Exposition::default();
    let counts = view.counts;
    out.family("harness_tasks", "gauge", "Tasks by status.");
    for (status, count) in [
        ("completed", counts.completed),
        ("failed", counts.failed),
        ("in_progress", counts.in_progress),
        ("pending", counts.pending),
    ] {
        out.sample("harness_tasks", &[("status", status)], count);
    }
    out.family(
        "harness_tasks_blocked",
        "gauge",
        "Pending tasks that depend on one that failed for good.",
    );
    out.sample("harness_tasks_blocked", &[], counts.blocked);
    out.family("harness_workers", "gauge", "Workers by state.");
    for (state, name) in [
        (WorkerCondition::Working, "working"),
        (WorkerCondition::Landing, "landing"),
        (WorkerCondition::Waiting, "waiting"),
        (WorkerCondition::Idle, "idle"),
        (WorkerCondition::Gone, "gone"),
    ] {
        let count = view.workers.iter().filter(|worker| worker.state == state).count();
        out.sample("harness_workers", &[("state", name)], count);
    }
    out.family("harness_lease_age_seconds", "gauge", "Time since the claim of each held task.");
    for worker in &view.workers {
        if let (Some(task), Some(claimed)) = (&worker.task_id, worker.claimed_at)
            && view.time >= claimed
        {
            let labels = [("task", task.as_str()), ("worker", worker.id.as_str())];
            out.sample("harness_lease_age_seconds", &labels, view.time.since(claimed));
        }
    }
    out.family("harness_landing_queue", "gauge", "Results that wait to land.");
    let landing = view.workers.iter().filter(|worker| worker.landing.is_some()).count();
    out.sample("harness_landing_queue", &[], landing);
    out.family("harness_needs_attention", "gauge", "Matters that wait for a person.");
    out.sample("harness_needs_attention", &[], view.needs.len());
    out.family("harness_tokens", "counter", "Tokens of all runs.");
    out.sample("harness_tokens_total", &[("direction", "input")], spending.input_tokens);
    out.sample("harness_tokens_total", &[("direction", "output")], spending.output_tokens);
    out.family("harness_cost_usd", "counter", "Cost of all runs, as agents report it.");
    out.sample("harness_cost_usd_total", &[], spending.cost_usd.unwrap_or(0.0));
    out.end()
}

/// The text format.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        _ = writeln!(self.0, "# TYPE {name} {kind}\n# HELP {name} {help}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0 += name;
        for (n, (label, text)) in labels.iter().enumerate() {
            let open = if n == 0 { '{' } else { ',' };
            _ = write!(self.0, "{open}{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        _ = writeln!(self.0, " {value}");
    }

    fn end(mut self) -> String {
        self.0 += "# EOF\n";
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_open_metrics() {
        let mut out = Exposition::default();
        out.family("a", "gauge", "Help.");
        out.sample("a", &[], 1);
        out.sample("a", &[("x", "\"\\\n"), ("y", "2")], 0.5);
        let expected =
            "# TYPE a gauge\n# HELP a Help.\na 1\na{x=\"\\\"\\\\\\n\",y=\"2\"} 0.5\n# EOF\n";
        assert_eq!(out.end(), expected);
    }
}
