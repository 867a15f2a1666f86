//! `harness task list`, `show` and `graph`

use insta::assert_snapshot;

use crate::{environment::TestEnvironment, ledgers::MIXED};

fn environment(ledger: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", ledger);
    env
}

#[test]
fn the_list_is_a_table() {
    let env = environment(MIXED);
    assert_snapshot!(env.run(["task", "list"]).success().output(), @r"
    task-001  completed    P1  1/3  Set up
    task-002  in_progress  P0  0/3  Login — worker-b
    task-003  pending      P1  0/3  Logout
    task-004  failed       P1  3/3  Deploy \u{1b}[2Jnow\r\n\u{202e}back
    task-005  pending      P1  0/3  Announce — blocked
    task-006  failed       P1  1/3  Manual
    task-007  pending      P2  0/3  Tidy up
    ");
}

#[test]
fn the_list_can_be_filtered() {
    let env = environment(MIXED);
    let ids = |args: &[&str]| {
        let ran = env.run([&["task", "list"], args].concat()).success();
        ran.output().lines().map(|l| l.split(' ').next().unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(&["--status", "failed"]), "task-004 task-006");
    assert_eq!(ids(&["--status", "blocked"]), "task-005");
    assert_eq!(ids(&["--status", "in_progress"]), "task-002");
    assert_eq!(ids(&["--role", "backend"]), "task-002");
    assert_eq!(ids(&["--phase", "docs"]), "task-006");
    // They are in the order in which they would be claimed: pending before failed ones.
    assert_eq!(ids(&["--ready"]), "task-007 task-006");
    assert_eq!(ids(&["--ready", "--role", "backend"]), "task-007 task-006");
    env.run(["task", "list", "--status", "odd"]).code(2);
}

#[test]
fn programs_get_the_listed_tasks_with_unknown_fields() {
    let env = environment(MIXED);
    let document = env.run(["task", "list", "--status", "completed", "--json"]).success().json();
    assert_snapshot!(document, @r#"{"version":1,"tasks":[{"id":"task-001","title":"Set up","status":"completed","attempts":1,"completed_at":"2025-07-01T10:10:00Z","claimed_by":"worker-a","x-note":{"kept":[1,2.5]}}]}"#);
}

#[test]
fn show_tells_everything_about_a_claimed_task() {
    let env = environment(MIXED);
    let ran = env.run(["task", "show", "task-002"]).success();
    let output =
        regex::Regex::new("ran out .* ago").unwrap().replace(ran.output(), "ran out [AGO]");
    assert_snapshot!(output, @r"
    task-002: Login
      status       in_progress — worker-b, lease ran out [AGO]
      priority     P0
      attempts     0 of 3
      role         backend
      check        cargo test login
      check limit  5 min
      claimed      [TIME]
      lease ends   [TIME]
      claim        epoch 2, via run
      base         0123456
      depends on   [completed] task-001: Set up
      needed by    [pending] task-003: Logout
      checkpoints  1/3  routes  [TIME]
      instructions
        POST /login
        see src/routes
    ");
}

#[test]
fn show_tells_why_a_task_is_not_worked_on() {
    let env = environment(MIXED);
    let status = |id: &str| {
        let ran = env.run(["task", "show", id]).success();
        ran.output().lines().nth(1).unwrap().trim().to_owned()
    };
    assert_snapshot!(status("task-001"), @"status       completed");
    assert_snapshot!(status("task-003"), @"status       pending — waits for task-002");
    assert_snapshot!(status("task-004"), @"status       failed for good");
    assert_snapshot!(status("task-005"), @"status       pending — blocked by failed task-004");
    assert_snapshot!(status("task-006"), @"status       failed, to be tried again — ready; other tasks come first");
    assert_snapshot!(status("task-007"), @"status       pending — next in line");
    assert_snapshot!(env.run(["task", "show", "task-004"]).success().output(), @r"
    task-004: Deploy \u{1b}[2Jnow\r\n\u{202e}back
      status       failed for good
      priority     P1
      attempts     3 of 3
      check        none: `harness run` does not work on it
      failed       [TIME]
      depends on   [completed] task-001: Set up
      needed by    [pending] task-005: Announce
      errors       [TEST_FAIL] exit 1\u{1b}[31m
    ");
}

#[test]
fn show_answers_programs() {
    let env = environment(MIXED);
    let mut document = env.run(["task", "show", "task-003", "--json"]).success().json();
    document.as_object_mut().unwrap().shift_remove("task");
    assert_snapshot!(document, @r#"{"version":1,"standing":"waiting","reason":"waits for task-002","next":false,"blocked":false,"dependencies":[{"id":"task-001","status":"completed","title":"Set up"},{"id":"task-002","status":"in_progress","title":"Login"}],"dependents":[{"id":"task-005","status":"pending","title":"Announce"}]}"#);
}

#[test]
fn a_task_that_is_not_there_is_an_error_with_the_nearest() {
    let env = environment(MIXED);
    assert_snapshot!(env.run(["task", "show", "task-0002"]).code(1).errors(), @r"
    Error: Task task-0002 not found
    Hint: `harness task list` shows all tasks
    Hint: did you mean `task-002`?
    ");
    env.run(["task", "show", "../x"]).code(2);
}

#[test]
fn the_graph_shows_each_task_in_full_once() {
    let env = environment(MIXED);
    assert_snapshot!(env.run(["task", "graph"]).success().output(), @r"
    [completed] task-001: Set up
    ├─ [in_progress] task-002: Login — worker-b
    │  └─ [pending] task-003: Logout
    │     └─ [pending] task-005: Announce — blocked
    ├─ [pending] task-003 ↑ see above
    ├─ [failed] task-004: Deploy \u{1b}[2Jnow\r\n\u{202e}back
    │  └─ [pending] task-005 ↑ see above
    └─ [failed] task-006: Manual
    [pending] task-007: Tidy up
    ");
}

#[test]
fn the_graph_of_a_broken_plan_ends() {
    let env = environment(
        r#"{"tasks": [
        {"id": "a", "title": "A", "depends_on": ["b"]},
        {"id": "b", "title": "B", "depends_on": ["a"]},
        {"id": "c", "title": "C", "depends_on": ["c", "nobody"]},
        {"id": "d", "title": "D", "depends_on": ["a"]}]}"#,
    );
    assert_snapshot!(env.run(["task", "graph"]).success().output(), @r"
    [missing] nobody
    └─ [pending] c: C
       └─ [pending] c ↺ depends on itself
    [pending] a: A
    ├─ [pending] b: B
    │  └─ [pending] a ↺ depends on itself
    └─ [pending] d: D
    ");
    let document = env.run(["task", "graph", "--json"]).success().json();
    assert_eq!(document["cyclic"], serde_json::json!(["a", "b", "c"]));
    assert_eq!(document["missing"], serde_json::json!(["nobody"]));
}

#[test]
fn the_graph_of_a_long_chain_stays_narrow() {
    let task = |n: u32| match n {
        0 => r#"{"id": "t0"}"#.to_owned(),
        n => format!(r#"{{"id": "t{n}", "depends_on": ["t{}"]}}"#, n - 1),
    };
    let tasks: Vec<_> = (0..2000).map(task).collect();
    let env = environment(&format!(r#"{{"tasks": [{}]}}"#, tasks.join(",")));
    let ran = env.run(["task", "graph"]).success();
    assert!(ran.output().lines().all(|line| line.chars().count() < 120));
    let drawn = |n: u32| ran.output().contains(&format!("[pending] t{n}: "));
    assert!((0..2000).all(drawn));
}

#[test]
fn mermaid_takes_any_title() {
    let env = environment(
        r#"{"tasks": [
        {"id": "a", "title": "say \"hi\"]; <b>#1</b>", "status": "completed"},
        {"id": "b", "title": "two\nlines", "depends_on": ["a", "gone"]}]}"#,
    );
    assert_snapshot!(env.run(["task", "graph", "--mermaid"]).success().output(), @r#"
    graph TD
      n0["a: say #34;hi#34;]#59; #60;b#62;#35;1#60;/b#62;"]:::completed
      n1["b: two#92;nlines"]:::pending
      n2["gone is missing"]:::failed
      n0 --> n1
      n2 --> n1
      classDef completed fill:#d4edda,stroke:#28a745,color:#000
      classDef in_progress fill:#cce5ff,stroke:#007bff,color:#000
      classDef pending fill:#f8f9fa,stroke:#6c757d,color:#000
      classDef blocked fill:#fff3cd,stroke:#e0a800,color:#000
      classDef failed fill:#f8d7da,stroke:#dc3545,color:#000
    "#);
}
