//! `harness status`

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use insta::assert_snapshot;

use crate::{
    environment::TestEnvironment,
    ledgers::{LOG, MIXED},
};

#[test]
fn a_person_sees_counts_tasks_and_the_end_of_the_log() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", MIXED).write("harness-progress.txt", LOG);
    let ran = env.run(["status"]).success().stderr("");
    // The clock changes only the time since the lease ended.
    let output =
        regex::Regex::new("ran out .* ago").unwrap().replace(ran.output(), "ran out [AGO]");
    assert_snapshot!(output, @r"
    [ROOT] — Users can log in\nand out
    7 tasks: 1 completed, 1 in progress, 3 pending (1 blocked), 2 failed
    session 3 of 50, last [TIME]

    [completed] task-001: Set up (1/3)
    [in_progress] task-002: Login (0/3) — worker-b, lease ran out [AGO]
    [pending] task-003: Logout (0/3)
    [failed] task-004: Deploy \u{1b}[2Jnow\r\n\u{202e}back (3/3)
    [pending] task-005: Announce (0/3) — blocked
    [failed] task-006: Manual (1/3)
    [pending] task-007: Tidy up (0/3)

    [[TIME]] [SESSION-1] Starting [task-001] Set up (base=abc1234)
    [[TIME]] [SESSION-1] Completed [task-001] (commit def5678)
    somebody's own \u{1b}[2J note
    [[TIME]] [SESSION-2] ERROR [task-004] [TEST_FAIL] exit 1
    [[TIME]] [SESSION-2] LOCK released
    ");
}

#[test]
fn programs_get_the_tasks_as_they_are_in_the_ledger() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", MIXED).write("harness-progress.txt", LOG);
    let ran = env.run(["status", "--json"]).success().stderr("");
    assert_eq!(ran.raw().lines().count(), 1);
    let document = ran.json();
    assert_snapshot!(document["counts"], @r#"{"total":7,"completed":1,"failed":2,"pending":3,"in_progress":1,"blocked":1}"#);
    let keys: Vec<_> = document.as_object().unwrap().keys().collect();
    assert_snapshot!(format!("{keys:?}"), @r#"["version", "counts", "tasks", "log", "session_count", "last_session", "paused_at", "workers", "target", "runs", "alerts", "goal", "max_sessions", "questions", "last_run", "gate", "needs"]"#);
    let ledger: serde_json::Value = serde_json::from_str(MIXED).unwrap();
    assert_eq!(document["tasks"], ledger["tasks"]);
    assert!(ran.raw().contains("2.50"), "numbers are kept to the letter");
    assert_eq!(document["log"].as_array().unwrap().len(), 5);
    assert_eq!(document["session_count"], 3);
    assert_eq!(document["last_session"], "2025-07-01T12:00:00Z");
    assert_eq!(document["version"], 1);
}

#[test]
fn an_editor_that_begins_a_file_with_a_mark_is_forgiven() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", format!("\u{feff}{MIXED}"));
    let document = env.run(["status", "--json"]).success().json();
    assert_eq!(document["counts"]["total"], 7);
    assert_eq!(document["tasks"].as_array().unwrap().len(), 7);
}

#[test]
fn an_empty_ledger_without_a_log_is_nothing_special() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", r#"{"tasks": []}"#);
    assert_snapshot!(env.run(["status"]).success().output(), @r"
    [ROOT]
    0 tasks: 0 completed, 0 in progress, 0 pending, 0 failed
    session 0 of 50
    ");
    assert_eq!(env.run(["status", "--json"]).success().json()["tasks"], serde_json::json!([]));
}

#[test]
fn a_broken_ledger_is_said_and_not_restored() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", "{\"tasks\": [").write("harness-tasks.json.bak", MIXED);
    for args in [&["status"][..], &["status", "--json"], &["task", "list"], &["task", "graph"]] {
        let ran = env.run(args).code(5).stdout("");
        assert!(ran.errors().contains("harness-tasks.json is not readable JSON"), "{ran}");
    }
    assert_eq!(env.read("harness-tasks.json"), "{\"tasks\": [");
    assert!(!env.exists(".harness"));
    env.write("harness-tasks.json", r#"{"tasks": [{"id": "a", "status": "odd"}]}"#);
    let ran = env.run(["status"]).code(5);
    assert!(ran.errors().contains("task \"a\""), "{ran}");
}

#[test]
fn without_a_ledger_it_says_how_to_make_one() {
    let env = TestEnvironment::new();
    env.run(["status"]).code(1).stderr_contains("create one with `harness init`");
}

#[test]
fn it_never_waits_for_the_lock_and_writes_nothing() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", MIXED);
    std::fs::set_permissions(env.root(), std::os::unix::fs::PermissionsExt::from_mode(0o555))
        .unwrap();
    env.run(["status"]).success();
    std::fs::set_permissions(env.root(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    assert_eq!(env.root().read_dir().unwrap().count(), 1);
}

#[test]
fn a_huge_title_is_one_line_and_not_cut() {
    let env = TestEnvironment::new();
    let title = "long\\n".repeat(20_000);
    env.write("harness-tasks.json", format!(r#"{{"tasks": [{{"id": "a", "title": "{title}"}}]}}"#));
    let ran = env.run(["status"]).success();
    let line = ran.output().lines().find(|line| line.starts_with("[pending] a: long\\n")).unwrap();
    assert_eq!(line.matches("long\\n").count(), 20_000);
    assert!(line.ends_with(" (0/3)"));
}

#[test]
fn watching_prints_anew_when_something_changed() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", r#"{"tasks": [{"id": "a", "title": "first"}]}"#);
    let mut child =
        env.harness(["status", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["tasks"][0]["title"], "first");
    env.write("harness-tasks.json.tmp", r#"{"tasks": [{"id": "a", "title": "second"}]}"#);
    let at = |name: &str| env.root().join(name);
    std::fs::rename(at("harness-tasks.json.tmp"), at("harness-tasks.json")).unwrap();
    assert_eq!(next()["tasks"][0]["title"], "second");
    env.write("harness-progress.txt", "a line\n");
    assert_eq!(next()["log"][0], "a line");
    // It ends when the reader is gone, without a signal.
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
