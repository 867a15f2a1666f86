//! Receipts, clean checkouts, baselines and protected files.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::environment::TestEnvironment;

pub(crate) fn world() -> TestEnvironment {
    TestEnvironment::of_worker()
}

pub(crate) fn add(env: &TestEnvironment, instructions: &str, validate: &str, more: &[&str]) {
    let args = ["add", "a task", "--instructions", instructions, "--validate", validate];
    env.run([&args[..], more].concat()).success();
}

pub(crate) fn task(env: &TestEnvironment, n: usize) -> Value {
    let ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    ledger["tasks"][n].clone()
}

fn receipt(env: &TestEnvironment, name: &str) -> Value {
    serde_json::from_str(&env.read(format!(".harness/receipts/{name}.json"))).unwrap()
}

const RUN: [&str; 3] = ["run", "--agent", "shell"];

#[test]
fn every_completion_leaves_a_receipt() {
    let env = world();
    let base = env.git(["rev-parse", "HEAD"]);
    add(&env, "touch one", "echo fine; test -f one", &[]);
    env.run(RUN).success();
    let kept = receipt(&env, "task-001.1");
    let head = env.git(["rev-parse", "HEAD"]);
    assert_eq!((&kept["task"], &kept["epoch"]), (&"task-001".into(), &1.into()));
    assert_eq!((&kept["base"], &kept["commit"]), (&base.into(), &head.into()));
    assert_eq!(kept["tree"], env.git(["rev-parse", "HEAD^{tree}"]));
    assert_eq!((&kept["worker"], &kept["agent"]), (&"w".into(), &"shell".into()));
    assert_eq!((&kept["iterations"], &kept["tokens"]), (&1.into(), &Value::Null));
    let check = &kept["check"];
    assert_eq!(check["command"], "echo fine; test -f one");
    assert_eq!((&check["exit_code"], &check["output_tail"]), (&0.into(), &"fine\n".into()));
    let sha256 = "8ecc5f94c57b05d6c5e0ee316bee4875427e1845bbeef3ead59df29c72aab36e";
    assert_eq!(check["output_sha256"], sha256);
    assert_eq!((&check["clean"], &kept["baseline"]), (&false.into(), &Value::Null));
    let file = env.root().join(".harness/receipts/task-001.1.json");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_client_leaves_one_too_and_a_link_in_its_place_is_not_followed() {
    let env = world();
    env.run(["add", "checked", "--validate", "test -f one"]).success();
    env.run(["add", "on a word"]).success();
    env.run(["task", "claim"]).success();
    env.write("one", "");
    let outside = env.home().join("outside");
    env.write(&outside, "theirs").write(".harness/receipts/x", "");
    std::os::unix::fs::symlink(&outside, env.root().join(".harness/receipts/task-001.1.json"))
        .unwrap();
    let ran = env.run(["task", "complete", "--id", "task-001"]);
    ran.stderr_contains(".harness/receipts/task-001.1.json is a symbolic link");
    assert_eq!(env.read(&outside), "theirs");
    std::fs::remove_file(env.root().join(".harness/receipts/task-001.1.json")).unwrap();
    env.run(["task", "complete", "--id", "task-001"]).success();
    let kept = receipt(&env, "task-001.1");
    assert_eq!((&kept["check"]["exit_code"], &kept["agent"]), (&0.into(), &Value::Null));
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "task-002"]).success();
    assert_eq!(receipt(&env, "task-002.2")["check"], Value::Null);
    // A completion by force is a new claim. Repeating it changes nothing.
    env.run(["add", "forced", "--validate", "true"]).success();
    env.run(["task", "complete", "--id", "task-003", "--force"]).success();
    let epoch = task(&env, 2)["epoch"].clone();
    assert_eq!(receipt(&env, &format!("task-003.{epoch}"))["epoch"], epoch);
    // A failed check leaves no receipt.
    env.run(["add", "red", "--validate", "false"]).success();
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "task-004"]).code(1);
    let epoch = task(&env, 3)["epoch"].clone();
    assert!(!env.exists(format!(".harness/receipts/task-004.{epoch}.json")));
}

#[test]
fn what_is_in_no_commit_can_not_make_a_clean_check_green() {
    let env = world();
    env.write("helper", "untracked")
        .write(".git/info/exclude", ".harness\nharness-*\n.harness-*\nbuilt\n");
    env.write("harness.toml", "[validation]\nclean = true\n");
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "-m", "clean"]);
    // One needs a file that existed before, the other an ignored one. Both fail in a checkout.
    add(&env, "touch one", "test -f one -a -f helper", &["--max-attempts", "1"]);
    add(&env, "touch two built", "test -f two -a -f built", &["--max-attempts", "1"]);
    add(&env, "touch three", "test -f three", &[]);
    env.run(RUN).code(4);
    assert_eq!(task(&env, 0)["status"], "failed");
    assert!(task(&env, 1)["error_log"][0].as_str().unwrap().starts_with("[TEST_FAIL] "));
    assert_eq!(task(&env, 2)["status"], "completed");
    assert!(!env.exists("one") && env.exists("helper") && env.exists("three"));
    let epoch = task(&env, 2)["epoch"].clone();
    assert_eq!(receipt(&env, &format!("task-003.{epoch}"))["check"]["clean"], true);
    assert_eq!(env.git(["worktree", "list"]).lines().count(), 1, "no checkout is left");
    assert_eq!(env.git(["log", "--format=%s"]).lines().next(), Some("task-003: a task"));
}

#[test]
fn a_clean_check_runs_the_init_script_in_its_checkout() {
    let env = world();
    env.write("harness-init.sh", "echo ready > prepared\n").write(".gitignore", "prepared\n");
    env.git(["add", "."]);
    env.git(["commit", "--quiet", "-m", "init"]);
    env.run(["trust", "--yes"]).success();
    let ledger = |env: &TestEnvironment| env.read("harness-tasks.json");
    add(&env, "touch one", "test -f one -a -f prepared", &[]);
    let clean = ledger(&env)
        .replace("\"timeout_seconds\": 300", "\"timeout_seconds\": 300, \"clean\": true");
    env.write("harness-tasks.json", clean);
    env.run(RUN).success();
    assert_eq!(receipt(&env, "task-001.1")["check"]["clean"], true);
}

#[test]
fn a_check_that_was_green_before_any_work_is_flagged() {
    let env = world();
    env.write("harness.toml", "[validation]\nbaseline = true\n");
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "-m", "baseline"]);
    add(&env, "touch one", "true", &[]);
    add(&env, "touch two", "test -f two", &[]);
    env.run(RUN).success();
    assert_eq!(receipt(&env, "task-001.1")["baseline"], "green");
    assert_eq!(receipt(&env, "task-002.2")["baseline"], "red");
    let log = env.read("harness-progress.txt");
    let warned = "WARN [task-001] the check passed before any work";
    assert!(log.contains(warned) && !log.contains("WARN [task-002]"), "{log}");
    env.run(["report"]).success().stdout_contains("its check passed before any work");
}

#[test]
fn protected_files_are_flagged_or_refused() {
    let env = world();
    let commit = |env: &TestEnvironment, text: &str| {
        env.write("harness.toml", text).git(["add", "harness.toml"]);
        env.git(["commit", "--quiet", "-m", "protect"]);
    };
    commit(&env, "protected = ['tests/', '*.yml']\n");
    add(&env, "mkdir tests; touch tests/a one", "test -f one", &[]);
    env.run(RUN).success();
    assert_eq!(receipt(&env, "task-001.1")["protected"], serde_json::json!(["tests/a"]));
    let log = env.read("harness-progress.txt");
    assert!(log.contains("WARN [task-001] touched protected files: tests/a"), "{log}");
    commit(&env, "protected = ['tests/', '*.yml']\nprotect = 'refuse'\n");
    add(&env, "touch ci.yml", "true", &["--max-attempts", "1"]);
    env.run(RUN).code(4);
    let error = &task(&env, 1)["error_log"][0];
    assert_eq!(error, "[TASK_EXEC] touched protected files: ci.yml");
    assert!(!env.exists("ci.yml"));
    env.run(["add", "by a client", "--validate", "true"]).success();
    env.run(["task", "claim"]).success();
    env.write("ci.yml", "");
    env.run(["task", "complete", "--id", "task-003"]).code(1).stderr_contains("ci.yml");
    commit(&env, "protected = ['a[']\n");
    env.run(RUN).code(5).stderr_contains("protected: \"a[\"");
}
