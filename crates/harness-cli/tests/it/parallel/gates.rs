//! Gates among several workers: one of them tries a gate, in its own tree, at the tip of the target.

use super::stage::{add, all_landed_once, ledger, nothing_left, tasks, world};
use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, beside},
};

/// Creates two tasks of a first phase and one of a second, with this gate between them.
fn phased(options: &[&str]) -> TestEnvironment {
    let env = world();
    env.run([&["plan", "phase", "First"], options].concat()).success();
    env.run(["plan", "phase", "Second"]).success();
    for n in 1..=2 {
        add(&env, &format!("echo {n} > f{n}"), &format!("test -f f{n}"), &["--phase", "First"]);
    }
    add(&env, "touch last", "test -f last", &["--phase", "Second"]);
    env
}

/// Returns a gate that records where it is tried.
fn gate(env: &TestEnvironment, check: &str) -> String {
    format!("pwd >> {}; {check}", env.home().join("tried").display())
}

fn tries(env: &TestEnvironment) -> Vec<String> {
    env.read(env.home().join("tried")).lines().map(str::to_owned).collect()
}

#[test]
fn a_gate_is_tried_once_where_everything_has_landed() {
    let env = phased(&[]);
    // Both results are there only at the tip of the target.
    let gate = gate(&env, "test -f f1 && test -f f2");
    env.run(["plan", "phase", "First", "--gate", &gate]).success();
    env.run(["run", "--agent", "shell", "--workers", "3"]).success();
    all_landed_once(&env, "main");
    nothing_left(&env);
    let tries = tries(&env);
    assert_eq!(tries.len(), 1, "{tries:?}");
    let trees = format!("{}/.harness/worktrees/w.", env.root().display());
    assert!(tries[0].starts_with(&trees), "{tries:?}");
    let log = env.read("harness-progress.txt");
    assert_eq!(log.matches("Gate passed: First").count(), 1, "{log}");
    assert!(log.find("Gate passed: First") < log.find("Starting [task-003]"), "{log}");
}

#[test]
fn nobody_claims_behind_a_red_gate() {
    let env = phased(&[]);
    env.run(["plan", "phase", "First", "--gate", &gate(&env, "false")]).success();
    let ran = env.run(["run", "--agent", "shell", "--workers", "3"]).code(3);
    assert!(ran.errors().contains("First"), "{}", ran.errors());
    let tasks = tasks(&env);
    assert_eq!(tasks[2]["status"], "pending");
    assert_eq!(
        (&tasks[0]["status"], &tasks[1]["status"]),
        (&"completed".into(), &"completed".into())
    );
    assert_eq!(tries(&env).len(), 1, "one worker tries it, once");
    assert!(ledger(&env)["phases"][0]["claimed_by"].is_null(), "{}", ledger(&env)["phases"]);
    nothing_left(&env);
}

#[test]
fn an_approval_is_asked_for_once_and_all_workers_wait_for_it() {
    let env = phased(&["--approval"]);
    let run = Going::start(&env, &["run", "--agent", "shell", "--workers", "3"]);
    let other = Going::start(&env, &["work", "--agent", "shell", "--worker", "second", "--wait"]);
    let mut asked = String::new();
    crate::mcp::eventually("a person is asked", || {
        asked = beside(&env, &["questions"]);
        asked.contains("phase First")
    });
    assert_eq!(asked.lines().count(), 1, "{asked}");
    let id = asked.split(':').next().unwrap();
    beside(&env, &["reply", id, "approve"]);
    let ended = run.end();
    assert_eq!(ended.0, Some(0), "{}", ended.2);
    all_landed_once(&env, "main");
    beside(&env, &["abort"]);
    let ended = other.end();
    assert_eq!(ended.0, Some(130), "{}", ended.2);
    let log = env.read("harness-progress.txt");
    assert_eq!(log.matches("Gate passed: First").count(), 1, "{log}");
}
