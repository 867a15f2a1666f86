//! The encoder against golden files. `UPDATE_GOLDEN=1` writes them anew.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{env, fs, path::PathBuf};

use harness_core::{
    Run, RunId, Timestamp,
    agent::Usage,
    run::{RunStatus, StopReason},
};
use serde_json::Value;

use super::*;

const RUN: &str = "0197f0a2-0000-7000-8000-000000000007";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/trace/golden")
}

fn events() -> Vec<Value> {
    let text = fs::read_to_string(folder().join("events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn run() -> Run {
    let start = Timestamp::parse("2025-07-01T10:00:00Z").unwrap();
    Run {
        agent: "claude".to_owned(),
        status: RunStatus::Succeeded,
        stop_reason: Some(StopReason::Complete),
        updated_at: start.plus(306),
        usage: Usage { input_tokens: 1900, output_tokens: 40, cost_usd: Some(0.25) },
        ..Run::queued(RunId::parse(RUN).unwrap(), start)
    }
}

fn spans() -> Vec<Span> {
    let mut timeline = Timeline::new(&RunId::parse(RUN).unwrap());
    let mut spans: Vec<Span> = events().iter().flat_map(|event| timeline.take(event)).collect();
    spans.extend(timeline.end(&run()));
    spans
}

#[track_caller]
fn compare(name: &str, document: &Value) {
    let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
    let text = serde_json::to_string_pretty(document).unwrap() + "\n";
    let text = text.replace(&version, "\"VERSION\"");
    let path = folder().join(name);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "{name}");
    assert!(!text.contains("SECRET"), "no prompt, path, error or output is exported");
}

#[test]
fn the_spans_as_otlp_are_the_golden_file() {
    compare("otlp.json", &otlp::traces(&spans()));
}

#[test]
fn the_metrics_as_otlp_are_the_golden_file() {
    let mut meter = Meter::default();
    spans().iter().for_each(|span| meter.count(span));
    meter.depth("pending", 3);
    meter.depth("landing", 1);
    compare("metrics.json", &otlp::metrics(&meter, 1_751_364_000_000, 1_751_364_306_000));
}

#[test]
fn the_spans_as_a_flame_chart_are_the_golden_file() {
    compare("chrome.json", &chrome::document(&spans()));
}

/// A process that was killed never ends its spans. The next one goes on with the same names.
#[test]
fn a_timeline_that_begins_in_the_middle_has_the_same_names() {
    let whole = spans();
    let mut timeline = Timeline::new(&RunId::parse(RUN).unwrap());
    // The claim was made by the process that was killed.
    let rest = events().into_iter().skip(12);
    let mut spans: Vec<Span> = rest.flat_map(|event| timeline.take(&event)).collect();
    spans.extend(timeline.end(&run()));
    for span in &spans {
        let known = whole.iter().find(|known| known.id == span.id);
        let known = known.unwrap_or_else(|| panic!("{span:?}"));
        assert_eq!((&known.name, known.parent), (&span.name, span.parent));
    }
    assert!(spans.iter().any(|span| span.name == "attempt"));
}

#[test]
fn every_span_has_its_parent_and_lies_within_the_run() {
    let spans = spans();
    let run = spans.last().unwrap();
    assert_eq!((run.name.as_str(), run.parent), ("run", None));
    for span in &spans {
        assert!(span.start_ms <= span.end_ms && run.start_ms <= span.start_ms, "{span:?}");
        assert!(span.end_ms <= run.end_ms, "{span:?}");
        let parent = span.parent.map(|parent| spans.iter().any(|known| known.id == parent));
        assert_ne!(parent, Some(false), "{span:?}");
    }
    let count = |name: &str| spans.iter().filter(|span| span.name == name).count();
    assert_eq!((count("attempt"), count("iteration"), count("check")), (2, 3, 2));
    assert_eq!((count("wait"), count("land"), count("rollback"), count("gate")), (1, 1, 1, 1));
    assert_eq!(count("invoke_agent worker"), 3);
}
