//! What landed is taken back.

use serde_json::json;

use super::stage::{add, all_landed_once, nothing_left, tasks, world};
use crate::environment::TestEnvironment;

const RUN: [&str; 5] = ["run", "--agent", "shell", "--workers", "2"];

/// Lets two tasks land, and a third one that depends on the first.
fn landed() -> TestEnvironment {
    let env = world();
    let first = add(&env, "echo 1 > f1", "test -f f1", &[]);
    add(&env, "echo 2 > f2", "test -f f2", &[]);
    add(&env, "cat f1 > f3", "test -f f3", &["--depends-on", &first]);
    env.run(RUN).success();
    all_landed_once(&env, "main");
    env
}

#[test]
fn a_task_is_taken_back_by_a_commit_and_is_pending_again_with_the_reason() {
    let env = landed();
    let before = env.git(["rev-parse", "main"]);
    let ran = env.run(["revert", "task-001", "--reason", "it was wrong", "--json"]).success();
    let told = ran.json();
    assert_eq!(told["tasks"], json!(["task-001"]));
    assert_eq!(told["dependents"], json!(["task-003"]));
    assert_eq!(told["reverted"].as_array().unwrap().len(), 1);
    assert_eq!(env.git(["rev-parse", "main"]), told["commit"].as_str().unwrap());
    assert_eq!(env.git(["rev-parse", "main~1"]), before);
    assert!(env.git(["log", "-1", "--format=%s"]).starts_with("Revert \""));
    assert!(!env.exists("f1") && env.exists("f2") && env.exists("f3"), "the tree moved with it");
    assert_eq!(env.git(["status", "--porcelain"]), "");
    let task = &tasks(&env)[0];
    assert_eq!((&task["status"], &task["attempts"]), (&json!("pending"), &json!(0)));
    assert_eq!(task["error_log"], json!(["Reverted: it was wrong"]));
    let log = env.read("harness-progress.txt");
    assert!(log.contains("it was wrong"), "{log}");
    nothing_left(&env);
    // The next run does it again.
    env.run(RUN).success();
    assert!(env.exists("f1"));
    env.run(["revert", "task-001"]).success().stdout_contains("took 1 commit back on main");
    assert!(!env.exists("f1"));
}

#[test]
fn what_others_need_is_not_taken_back() {
    let env = landed();
    add(&env, "true", "test -f f2", &["--priority", "P0"]);
    add(&env, "echo 4 > f4", "test -f f2 && test -f f4", &[]);
    env.run(RUN).success();
    let before = env.git(["rev-parse", "main"]);
    env.run(["revert", "task-002"])
        .code(1)
        .stderr_contains("without it the check of task-004 fails: test -f f2 (exit code 1)");
    assert_eq!(env.git(["rev-parse", "main"]), before);
    assert_eq!(tasks(&env)[1]["status"], "completed");
    assert_eq!(env.git(["for-each-ref", "refs/harness/land"]), "");
}

#[test]
fn a_whole_run_is_taken_back() {
    let env = landed();
    let runs = env.run(["runs", "list", "--json"]).success().json();
    let run = runs["runs"][0]["run_id"].as_str().unwrap();
    let told = env.run(["revert", &run[..13], "--json"]).success().json();
    assert_eq!(told["tasks"], json!(["task-001", "task-002", "task-003"]));
    assert_eq!(told["reverted"].as_array().unwrap().len(), 3);
    assert!(!env.exists("f1") && !env.exists("f2") && !env.exists("f3"));
    assert!(tasks(&env).iter().all(|task| task["status"] == "pending"));
}

#[test]
fn a_dirty_tree_and_a_later_change_of_the_same_lines_keep_what_landed() {
    let env = landed();
    env.write("f2", "mine\n");
    env.run(["revert", "task-001"]).code(1).stderr_contains("nothing was changed");
    assert_eq!(tasks(&env)[0]["status"], "completed");
    env.git(["commit", "--quiet", "--all", "--message", "my own"]);
    env.run(["revert", "task-002"]).code(1).stderr_contains("conflicts with later commits in f2");
    env.run(["revert", "task-009"]).code(1).stderr_contains("there is no task task-009");
    env.run(["revert", "task-001"]).success();
    env.run(["revert", "task-001"]).code(1).stderr_contains("is pending, not completed");
    assert_eq!(env.read("f2"), "mine\n");
}

#[test]
fn the_work_of_one_worker_in_the_main_tree_is_left_to_git() {
    let env = world();
    add(&env, "echo 1 > f1", "test -f f1", &[]);
    env.run(["run", "--agent", "shell"]).success();
    env.run(["revert", "task-001"]).code(1).stderr_contains("git revert");
    assert_eq!(tasks(&env)[0]["status"], "completed");
}
