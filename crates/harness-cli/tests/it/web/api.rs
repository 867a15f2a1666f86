//! The server for programs.

use serde_json::json;

use super::{
    client::{get, post},
    server::Server,
};
use crate::environment::TestEnvironment;

fn project() -> TestEnvironment {
    let env = TestEnvironment::of_worker();
    env.run(["add", "Parse the file", "--validate", "true"]).success();
    env
}

fn command(server: &Server, request: serde_json::Value) -> super::client::Response {
    server.send(post("/api/command", request.to_string()).header("X-Harness", "1"))
}

#[test]
fn the_first_line_is_the_link() {
    use std::io::BufRead as _;
    let env = project();
    let mut command = env.harness(["web"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.starts_with("http://127.0.0.1:") && line.ends_with('\n'), "{line}");
}

#[test]
fn programs_get_the_views_and_refusals_of_the_protocol() {
    let env = project();
    let server = Server::start(&env);
    let status = server.send(get("/api/status")).json();
    assert_eq!(status["version"], 1);
    let shown = env.run(["top", "--json"]).success().json();
    for key in ["counts", "needs", "working", "waiting", "done", "goal"] {
        assert_eq!(status[key], shown[key], "{key}");
    }
    let task = server.send(get("/api/task/task-001")).json();
    assert_eq!(task["task"]["title"], "Parse the file");
    assert_eq!(task["standing"], "next");
    for id in ["task-099", "..", "%2e%2e", "a%20b"] {
        assert_eq!(server.send(get(format!("/api/task/{id}"))).status, 404, "{id}");
    }
    let added = command(&server, json!({ "command": "task_add", "title": "Second" }));
    assert_eq!((added.status, &added.json()["status"]), (200, &json!("ok")), "{added:?}");
    assert_eq!(env.task(1)["title"], "Second");
    for (request, status, code) in [
        (json!({ "command": "task_remove", "task_id": "task-099" }), 404, "not_found"),
        (json!({ "command": "dance" }), 400, "unknown_command"),
        (json!({ "title": "x" }), 400, "bad_request"),
        (json!({ "command": "subscribe" }), 400, "bad_request"),
        (json!({ "command": "task_add", "title": "x", "root": "/elsewhere" }), 409, "another_root"),
    ] {
        let refused = command(&server, request.clone());
        assert_eq!((refused.status, &refused.json()["code"]), (status, &json!(code)), "{request}");
    }
    assert_eq!(server.send(get("/api/none")).status, 404);
}

#[test]
fn a_server_that_only_shows_refuses_every_command() {
    let env = project();
    let server = Server::with(&env, &["--read-only"]);
    let refused = command(&server, json!({ "command": "task_add", "title": "Second" }));
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("only_operator")));
    assert_eq!(server.send(get("/api/status")).json()["counts"]["total"], 1);
}

#[test]
fn an_agent_that_starts_a_server_gains_nothing() {
    let env = project();
    let job = format!("{}.1.x", harness::home::root_hash(env.root()));
    let env = env.variable("HARNESS_JOB", job);
    let server = Server::start(&env);
    let refused = command(&server, json!({ "command": "task_remove", "task_id": "task-001" }));
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("only_operator")));
    assert_eq!(env.task(0)["title"], "Parse the file");
}

#[test]
fn metrics_are_open_metrics() {
    let env = project();
    env.run(["task", "claim"]).success();
    let server = Server::start(&env);
    let response = server.send(get("/metrics"));
    assert!(response.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = &response.body;
    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in [
        "harness_tasks{status=\"in_progress\"} 1",
        "harness_workers{state=\"working\"} 1",
        "harness_landing_queue 0",
        "harness_cost_usd_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(text.contains("harness_lease_age_seconds{task=\"task-001\",worker=\"w\"} "), "{text}");
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for family in families {
        let name = family.split(' ').next().unwrap();
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
}

#[test]
fn events_of_the_host_are_streamed_and_continued() {
    let env = project().with_daemon();
    env.run(["daemon", "start"]).success();
    let server = Server::start(&env);
    let mut stream = server.stream(get("/api/events"));
    let kind = stream.headers.iter().find(|(name, _)| name == "content-type").unwrap();
    assert_eq!((stream.status, kind.1.as_str()), (200, "text/event-stream"));
    let live = || get(format!("{}live", server.base));
    // The subscription begins a moment after the stream. It has begun when the page learns of a
    // change by an event, which has an id.
    let mut news = server.stream(live());
    loop {
        env.run(["add", "More"]).success();
        if news.next().id.is_some() {
            break;
        }
    }
    let first = stream.next();
    let line: serde_json::Value = serde_json::from_str(&first.data).unwrap();
    assert_eq!(line["id"].as_str(), first.id.as_deref());
    assert!(line["timestamp"].is_string() && line["event"]["type"].is_string(), "{line}");
    env.run(["add", "Later"]).success();
    let second = stream.next();
    drop(stream);
    let mut again =
        server.stream(get("/api/events").header("Last-Event-ID", first.id.clone().unwrap()));
    assert_eq!(again.next(), second, "it continues after the event that was seen");
    let unknown = "00000000-0000-7000-8000-000000000000";
    let mut lost = server.stream(get("/api/events").header("Last-Event-ID", unknown));
    assert_eq!(lost.next().event.as_deref(), Some("lagged"), "a gap is shown");
    let mut lost = server.stream(live().header("Last-Event-ID", unknown));
    assert_eq!(lost.next().event.as_deref(), Some("gap"));
}
