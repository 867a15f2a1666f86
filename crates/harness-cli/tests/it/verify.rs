//! `harness verify`

use crate::{
    environment::TestEnvironment,
    evidence::{add, world},
};

fn row(env: &TestEnvironment, n: usize) -> (bool, String) {
    let answer = env.run(["verify", "--json"]).json();
    let row = &answer["tasks"][n];
    (row["holds"].as_bool().unwrap(), row["result"].as_str().unwrap().to_owned())
}

#[test]
fn what_was_completed_is_checked_again_where_it_was_committed() {
    let env = world();
    add(&env, "touch one", "test -f one", &[]);
    add(&env, "touch two", "test -f two && test -f mine", &[]);
    env.write("mine", "untracked, so the second holds only here");
    env.run(["run", "--agent", "shell"]).success();
    env.write("one", "a dirty tree does not matter");
    let ran = env.run(["verify", "task-001"]).success();
    ran.stdout_contains("holds").stdout_contains("1 of 1 hold");
    assert_eq!(env.read("one"), "a dirty tree does not matter");
    env.run(["verify"]).code(1).stdout_contains("does not hold").stdout_contains("1 of 2 hold");
    assert_eq!(row(&env, 0), (true, "passed".to_owned()));
    assert_eq!(row(&env, 1), (false, "red".to_owned()));
    assert_eq!(env.git(["worktree", "list"]).lines().count(), 1);
    std::fs::remove_file(env.root().join(".harness/receipts/task-001.1.json")).unwrap();
    assert_eq!(row(&env, 0), (false, "no_receipt".to_owned()));
    env.run(["verify", "task-009"]).code(1).stderr_contains("task-009");
    let stranger = env.variable("XDG_STATE_HOME", "/nonexistent");
    stranger.run(["verify"]).code(5).stderr_contains("harness trust");
}

#[test]
fn a_word_a_lost_commit_and_unfinished_work_do_not_hold() {
    let env = world();
    env.run(["add", "on a word"]).success();
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "task-001"]).success();
    assert_eq!(row(&env, 0), (false, "unchecked".to_owned()));
    env.run(["add", "open"]).success();
    env.run(["verify", "task-002"]).code(1).stdout_contains("is pending");
    env.run(["add", "lost", "--validate", "true"]).success();
    env.run(["task", "complete", "--id", "task-003", "--force"]).success();
    let ledger: serde_json::Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    let epoch = &ledger["tasks"][2]["epoch"];
    let file = format!(".harness/receipts/task-003.{epoch}.json");
    let head = env.git(["rev-parse", "HEAD"]);
    env.write(&file, env.read(&file).replace(&head, &"1".repeat(40)));
    assert_eq!(row(&env, 1), (false, "foreign_receipt".to_owned()));
    // Without a journal its author is unknown.
    std::fs::remove_dir_all(env.root().join(".git/harness")).unwrap();
    assert_eq!(row(&env, 1), (false, "no_commit".to_owned()));
}

#[test]
fn nothing_completed_holds() {
    let env = world();
    env.run(["verify"]).success().stdout_contains("0 of 0 hold");
}
