//! Traces and metrics: `TRACEPARENT`, the exporter, and `harness trace export`.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use harness_core::{Epoch, RunId, TaskId, trace::*};
use serde_json::Value;

use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, Held, agent, stage},
    receiver::{Receiver, Request, Silence},
    run::{add, world},
};

/// Returns the spans of OTLP documents.
fn spans<'a>(documents: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    let of = |document: &Value| document["resourceSpans"][0]["scopeSpans"][0]["spans"].clone();
    documents.into_iter().flat_map(|document| of(document).as_array().unwrap().clone()).collect()
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|pair| pair["key"] == name).unwrap_or_else(|| panic!("{span:#}"));
    &found["value"]
}

fn sent(requests: &[Request], path: &str) -> Vec<Value> {
    requests.iter().filter(|request| request.path == path).map(Request::json).collect()
}

/// Writes the trace of a process into a file below the home.
fn noting(env: &TestEnvironment, name: &str) -> String {
    format!("echo \"$TRACEPARENT\" >> {}", env.home().join(name).display())
}

#[test]
fn every_child_gets_the_span_that_it_belongs_to() {
    let env = world();
    env.write("harness-init.sh", noting(&env, "init"));
    env.git(["add", "harness-init.sh"]);
    env.git(["commit", "--quiet", "-m", "init"]);
    let cleanup = noting(&env, "cleanup");
    let more = ["--max-attempts", "1", "--cleanup", &cleanup];
    add(&env, &noting(&env, "agent"), &format!("{}; false", noting(&env, "check")), &more);
    env.run(["plan", "phase", "Last", "--gate", &noting(&env, "gate")]).success();
    env.run(["trust", "--yes"]).success();
    let ended = env.run(["run", "--agent", "shell", "--json"]).json();
    let run = RunId::parse(ended["run_id"].as_str().unwrap()).unwrap();
    let trace = TraceId::of_run(&run);
    let attempt = SpanId::of_attempt(trace, &TaskId::numbered(1), Epoch(1));
    let context = SpanId::of_iteration(trace, attempt, 0);
    let read = |name: &str| env.read(env.home().join(name)).lines().next().unwrap().to_owned();
    assert_eq!(read("init"), traceparent(trace, SpanId::of_run(trace)));
    assert_eq!(read("agent"), traceparent(trace, context));
    assert_eq!(read("check"), traceparent(trace, context));
    assert_eq!(read("cleanup"), traceparent(trace, attempt));
    assert_eq!(read("gate"), traceparent(trace, SpanId::of_run(trace)));
}

#[test]
fn a_run_that_was_killed_and_resumed_continues_its_trace() {
    let env = stage();
    let held = Held::new(&env);
    let seen = env.home().join("seen");
    let script = format!("echo \"$TRACEPARENT\" >> {}; exec {}", seen.display(), held.command);
    let agent = agent(&env, &script);
    let mut run = Going::start(&env, &["run", "write it", "--agent-command", &agent]);
    held.is_at_work();
    run.kill();
    let run = Going::start(&env, &["run", "--resume"]);
    held.is_at_work();
    held.release();
    _ = run.end();
    let text = env.read(&seen);
    let lines: BTreeSet<&str> = text.lines().collect();
    assert!(text.lines().count() >= 2, "{text}");
    assert_eq!(lines.len(), 1, "the same context of the same run: {text}");
}

#[test]
fn a_collector_gets_the_spans_and_metrics_of_a_run_and_the_export_is_the_same() {
    let collector = Receiver::start(200);
    let env = world()
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url(""))
        .variable("OTEL_EXPORTER_OTLP_HEADERS", "x-token=a%20b");
    add(&env, "touch one", "test -f one", &[]);
    add(&env, "echo SECRET-TEXT", "false", &["--max-attempts", "1"]);
    let ended = env.run(["run", "--agent", "shell", "--json"]).code(4).json();
    let run = RunId::parse(ended["run_id"].as_str().unwrap()).unwrap();
    let requests = collector.wait(|seen| {
        let spans = spans(&sent(seen, "/v1/traces"));
        !named(&spans, "run").is_empty() && seen.iter().any(|r| r.path == "/v1/metrics")
    });
    assert!(requests.iter().all(|request| request.headers["x-token"] == "a b"));
    assert!(requests.iter().all(|r| r.headers["content-type"] == "application/json"));
    let live = spans(&sent(&requests, "/v1/traces"));
    let trace = TraceId::of_run(&run).to_string();
    assert!(live.iter().all(|span| span["traceId"] == trace.as_str()), "{live:#?}");
    let attempts = named(&live, "attempt");
    assert_eq!(attempts.len(), 2);
    let expected = SpanId::of_attempt(TraceId::of_run(&run), &TaskId::numbered(1), Epoch(1));
    assert_eq!(attempts[0]["spanId"], expected.to_string());
    assert_eq!(attribute(attempts[0], "harness.outcome")["stringValue"], "completed");
    assert_eq!(attribute(attempts[1], "error.type")["stringValue"], "TEST_FAIL");
    let calls = named(&live, "invoke_agent worker");
    assert_eq!(calls.len(), 2);
    assert_eq!(attribute(calls[0], "gen_ai.operation.name")["stringValue"], "invoke_agent");
    assert_eq!(named(&live, "check").len(), 2, "{live:#?}");
    assert_eq!(named(&live, "rollback").len(), 1);
    let metrics = sent(&requests, "/v1/metrics");
    let metrics = &metrics.last().unwrap()["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let metric = |name: &str| {
        metrics.as_array().unwrap().iter().find(|metric| metric["name"] == name).unwrap().clone()
    };
    let attempts = metric("harness.attempts");
    assert_eq!(attempts["sum"]["dataPoints"].as_array().unwrap().len(), 2, "{attempts}");
    assert!(!metric("harness.queue.depth")["gauge"]["dataPoints"].as_array().unwrap().is_empty());
    for request in &requests {
        assert!(!String::from_utf8_lossy(&request.body).contains("SECRET-TEXT"));
    }
    let exported = env.run(["trace", "export", "--run", run.as_str()]).success().json();
    let key = |span: &Value| {
        (span["spanId"].to_string(), span["name"].to_string(), span["attributes"].to_string())
    };
    let of = |spans: &[Value]| spans.iter().map(key).collect::<BTreeSet<_>>();
    assert_eq!(of(&spans([&exported])), of(&live));
}

#[test]
fn a_dead_collector_does_not_delay_a_run() {
    let silence = Silence::start();
    let env = world();
    add(&env, "touch one", "test -f one", &[]);
    let begun = Instant::now();
    env.run(["run", "--agent", "shell"]).success();
    let alone = begun.elapsed();
    add(&env, "touch two", "test -f two", &[]);
    let env = env.variable("OTEL_EXPORTER_OTLP_ENDPOINT", silence.url());
    let begun = Instant::now();
    env.run(["run", "--agent", "shell"]).success();
    let beside = begun.elapsed();
    // It waits a second at the end; the rest is the machine. A request takes ten seconds.
    assert!(beside < alone * 3 + Duration::from_secs(8), "{beside:?}, and {alone:?} without it");
}

#[test]
fn a_flame_chart_is_in_the_trace_event_format() {
    let env = world();
    add(&env, "touch one", "test -f one", &[]);
    env.run(["run", "--agent", "shell"]).success();
    env.run(["trace", "export", "--format", "chrome", "-o", "trace.json"])
        .success()
        .stderr_contains("are in trace.json");
    let document: Value = serde_json::from_str(&env.read("trace.json")).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    for event in events {
        let phase = event["ph"].as_str().unwrap();
        assert!(event["pid"].is_u64() && event["tid"].is_u64() && event["name"].is_string());
        match phase {
            "X" => {
                assert!(event["ts"].as_i64().unwrap() > 0 && event["dur"].as_i64().unwrap() >= 0)
            }
            "M" => assert!(event["args"]["name"].is_string()),
            other => panic!("{other}"),
        }
    }
    let names: Vec<_> =
        events.iter().filter(|e| e["ph"] == "X").map(|e| e["name"].as_str().unwrap()).collect();
    for name in
        ["run", "attempt task-001", "iteration task-001", "invoke_agent worker", "check task-001"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    env.run(["trace", "export", "--run", "ffff"]).code(1).stderr_contains("ffff");
}
