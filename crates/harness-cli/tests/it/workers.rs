//! The workers of a ledger, and the place of their results.

use harness::store::{Registration, Registry, WorkerRecord};
use harness_core::{Timestamp, WorkerId};
use serde_json::{Value, json};

use crate::environment::TestEnvironment;

const LATER: &str = "2100-01-01T00:00:00Z";

/// Writes a ledger on which several workers work: one result waits to land behind another, and the
/// last worker was killed.
fn world(config: &Value) -> TestEnvironment {
    let env = TestEnvironment::of_worker();
    let claim = |id: &str, by: &str, epoch: u64| {
        json!({
            "id": id, "title": format!("The {id}"), "status": "in_progress", "epoch": epoch,
            "claimed_by": by, "claimed_at": "2025-07-01T10:00:00Z", "lease_expires_at": LATER,
            "via": "run", "worktree": format!("/trees/{by}"), "validation": { "command": "true" },
        })
    };
    let entry =
        |task: &str, epoch: u64| json!({ "task": task, "epoch": epoch, "renewed_at": LATER });
    let ledger = json!({
        "version": 2, "epoch": 4, "needs": ["landing"], "session_config": config,
        "landing": [entry("first", 1), entry("second", 2)],
        "tasks": [
            claim("first", "w.1", 1), claim("second", "w.2", 2), claim("third", "w.3", 3),
            claim("fourth", "w.4", 4),
            { "id": "fifth", "title": "Later", "depends_on": ["third"] },
        ],
    });
    env.write("harness-tasks.json", ledger.to_string());
    env
}

fn concurrent() -> Value {
    json!({ "concurrency_mode": "concurrent", "target_branch": "main" })
}

fn record(id: &str) -> WorkerRecord {
    let started = Timestamp::from_seconds(1_750_000_000);
    let mut record = WorkerRecord::of_this_process(WorkerId::parse(id).unwrap(), started);
    record.labels = vec!["gpu".to_owned()];
    record
}

/// Registers workers of this process. They are alive until this is dropped.
fn register(env: &TestEnvironment, ids: &[&str]) -> Vec<Registration> {
    let registry = Registry::of(env.root());
    ids.iter().map(|id| registry.register(record(id)).unwrap().unwrap()).collect()
}

fn leave_dead(env: &TestEnvironment, id: &str) {
    let text = serde_json::to_string(&record(id)).unwrap();
    env.write(format!(".harness/workers/{id}"), text);
}

#[test]
fn every_worker_has_one_state_and_one_line() {
    let env = world(&concurrent());
    let _alive = register(&env, &["w.1", "w.2", "w.3", "w.5"]);
    leave_dead(&env, "w.4");
    let workers = env.run(["workers", "--json"]).success().json()["workers"].clone();
    let brief: Vec<Value> = workers
        .as_array()
        .unwrap()
        .iter()
        .map(|w| json!([w["id"], w["state"], w["task_id"], w["landing"], w["worktree"]]))
        .collect();
    assert_eq!(
        json!(brief),
        json!([
            ["w.1", "landing", "first", 1, "/trees/w.1"],
            ["w.2", "landing", "second", 2, "/trees/w.2"],
            ["w.3", "working", "third", null, "/trees/w.3"],
            ["w.4", "gone", "fourth", null, "/trees/w.4"],
            ["w.5", "waiting", null, null, null],
        ])
    );
    assert_eq!(workers[2]["pid"], std::process::id());
    assert_eq!(workers[2]["epoch"], 3);
    assert_eq!(workers[2]["lease_expires_at"], LATER);
    assert_eq!(workers[2]["started_at"], "2025-06-15T15:06:40Z");
    let status = env.run(["status", "--json"]).success().json();
    assert_eq!(status["workers"], workers);
    assert_eq!(status["target"], json!({ "branch": "main" }));
    let text = env.run(["status"]).success();
    for line in
        ["worker w.3: third The third (", " s)", "worker w.5: waiting", "— landing, place 2"]
    {
        assert!(text.output().contains(line), "{line}: {}", text.output());
    }
    env.run(["workers"]).success().stdout_contains("— gone [gpu]");
}

#[test]
fn a_worker_without_work_is_idle_and_a_client_needs_no_registration() {
    let env = TestEnvironment::of_worker();
    env.run(["workers"]).success().stdout("").stderr_contains("no worker is here");
    let _alive = register(&env, &["w.1"]);
    env.run(["status"]).success().stdout_contains("worker w.1: idle");
    env.run(["add", "one"]).success();
    env.run(["task", "claim", "--worker", "alice"]).success();
    let workers = env.run(["workers", "--json"]).success().json();
    let states: Vec<&Value> =
        workers["workers"].as_array().unwrap().iter().map(|worker| &worker["state"]).collect();
    assert_eq!(states, ["working", "waiting"]);
    assert_eq!(workers["workers"][0]["pid"], Value::Null);
}

#[test]
fn why_and_the_graph_name_the_worker_and_the_place_in_the_line() {
    let env = world(&concurrent());
    env.run(["why", "second"])
        .success()
        .stdout_contains("claimed by w.2, place 2 in the line to land");
    env.run(["why", "fifth"]).success().stdout_contains("waits for third");
    let graph = env.run(["task", "graph"]).success();
    assert!(graph.output().contains("second: The second — w.2, place 2 in the line to land"));
    let nodes = env.run(["task", "graph", "--json"]).success().json()["nodes"].clone();
    assert_eq!((&nodes[1]["landing"], &nodes[1]["worker"]), (&json!(2), &json!("w.2")));
    assert_eq!(nodes[4]["waits_for"], json!(["third"]));
}

#[test]
fn results_on_a_branch_of_their_own_are_announced_until_they_are_taken() {
    let mut config = concurrent();
    config["landed_branch"] = "harness/landed".into();
    let env = world(&config);
    env.git(["branch", "harness/landed"]);
    let hint = "Results are on harness/landed; take them with: git merge harness/landed";
    let status = env.run(["status"]).success();
    assert!(!status.output().contains(hint), "there is nothing to take");
    env.git(["checkout", "--quiet", "harness/landed"]);
    env.git(["commit", "--quiet", "--allow-empty", "--message", "first"]);
    env.git(["checkout", "--quiet", "main"]);
    env.run(["status"]).success().stdout_contains(&format!("{hint} (1 commit ahead of main)"));
    env.run(["report"]).success().stdout_contains(hint);
    let expected = json!({ "branch": "main", "landed_branch": "harness/landed", "ahead": 1 });
    assert_eq!(env.run(["status", "--json"]).success().json()["target"], expected);
    assert_eq!(env.run(["report", "--json"]).success().json()["target"], expected);
    env.git(["merge", "--quiet", "harness/landed"]);
    let status = env.run(["status"]).success();
    assert!(!status.output().contains(hint), "{}", status.output());
}

#[test]
fn the_report_has_the_share_of_each_worker() {
    let env = TestEnvironment::of_worker();
    for title in ["one", "two", "three"] {
        env.run(["add", title]).success();
    }
    for worker in ["ann", "bob", "ann"] {
        env.run(["task", "claim", "--worker", worker]).success();
        let task = env.run(["workers", "--json"]).json()["workers"][0]["task_id"].clone();
        env.run(["task", "complete", task.as_str().unwrap(), "--worker", worker]).success();
    }
    let workers = env.run(["report", "--json"]).success().json()["workers"].clone();
    let landed: Vec<Value> =
        workers.as_array().unwrap().iter().map(|w| json!([w["id"], w["landed"]])).collect();
    assert_eq!(json!(landed), json!([["ann", 2], ["bob", 1]]));
    env.run(["report"]).success().stdout_contains("Workers (2)").stdout_contains("2 landed");
}
