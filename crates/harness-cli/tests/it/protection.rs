//! Protected files of a single task.

use serde_json::{Value, json};

use crate::{environment::TestEnvironment, evidence::add};

const RUN: [&str; 3] = ["run", "--agent", "shell"];

fn receipt(env: &TestEnvironment, name: &str) -> Value {
    serde_json::from_str(&env.read(format!(".harness/receipts/{name}.json"))).unwrap()
}

#[test]
fn a_task_protects_files_of_its_own_besides_those_of_the_configuration() {
    let env = TestEnvironment::of_worker();
    let commit = |text: &str| {
        env.write("harness.toml", text).git(["add", "harness.toml"]);
        env.git(["commit", "--quiet", "-m", "protect"]);
    };
    commit("protected = ['ci.sh']\n");
    let own = ["--protected", "tests/**", "--protected", "*.lock"];
    add(&env, "mkdir tests; touch tests/a ci.sh one", "test -f one", &own);
    add(&env, "mkdir -p tests; touch tests/b two", "test -f two", &[]);
    assert_eq!(env.task(0)["protected"], json!(["tests/**", "*.lock"]));
    assert_eq!(env.task(1).get("protected"), None, "an empty list is not written");
    env.run(RUN).success();
    assert_eq!(receipt(&env, "task-001.1")["protected"], json!(["ci.sh", "tests/a"]));
    assert_eq!(receipt(&env, "task-002.2")["protected"], json!([]));
    commit("protected = ['ci.sh']\nprotect = 'refuse'\n");
    add(&env, "touch x.lock", "true", &["--max-attempts", "1", "--protected", "*.lock"]);
    env.run(RUN).code(4);
    assert_eq!(env.task(2)["error_log"][0], "[TASK_EXEC] touched protected files: x.lock");
    assert!(!env.exists("x.lock"));
}

#[test]
fn tests_that_were_changed_are_listed_without_any_configuration() {
    let env = TestEnvironment::of_worker();
    env.write("tests/old.py", "assert div(1, 1) == 1").git(["add", "."]);
    env.git(["commit", "--quiet", "-m", "start"]);
    add(&env, "echo pass > tests/old.py; touch one", "test -f one", &[]);
    add(&env, "touch two", "test -f two", &[]);
    env.run(RUN).success();
    assert_eq!(receipt(&env, "task-001.1")["tests"], json!(["tests/old.py"]));
    assert_eq!(receipt(&env, "task-002.2").get("tests"), None);
    env.run(["report"]).success().stdout_contains("changed tests: tests/old.py");
    let report = env.run(["report", "--json"]).success().json();
    assert_eq!(report["landed"][0]["tests"], json!(["tests/old.py"]));
    assert_eq!(report["landed"][1]["tests"], json!([]));
}

#[test]
fn the_work_of_a_client_is_judged_by_them_too() {
    let env = TestEnvironment::of_worker();
    env.write("harness.toml", "protect = 'refuse'\n").write("tests/a", "1");
    env.git(["add", "."]);
    env.git(["commit", "--quiet", "-m", "start"]);
    env.run(["add", "x", "--validate", "true", "--protected", "tests/"]).success();
    env.run(["task", "claim"]).success();
    env.write("tests/a", "2");
    env.run(["task", "complete", "task-001"]).code(1).stderr_contains("tests/a");
    // A file that git was told to ignore is read all the same.
    env.git(["update-index", "--assume-unchanged", "tests/a"]);
    env.run(["task", "complete", "task-001"]).code(1).stderr_contains("tests/a");
    env.git(["update-index", "--no-assume-unchanged", "tests/a"]);
    env.write("tests/a", "1");
    env.run(["task", "complete", "task-001"]).success();
}

#[test]
fn protected_files_are_edited_shown_and_part_of_a_plan() {
    let env = TestEnvironment::of_worker();
    env.run(["add", "x", "--validate", "true", "--protected", "tests/"]).success();
    env.run(["task", "show", "task-001"]).success().stdout_contains("protected    tests/");
    let edit = ["task", "edit", "task-001", "--protected", "a/{b,c}.txt", "--protected", "ci.sh"];
    env.run(edit).success();
    let log = env.read("harness-progress.txt");
    let line = r#"WARN [task-001] protected changed by operator"#;
    assert!(log.contains(line) && log.contains(r#""tests/" -> "a/{b,c}.txt, ci.sh""#), "{log}");
    let exported = env.run(["plan", "export"]).success().raw().to_owned();
    env.write("plan.md", &exported);
    env.run(["plan", "import", "plan.md", "--replace"]).success();
    assert_eq!(env.task(0)["protected"], json!(["a/{b,c}.txt", "ci.sh"]));
    env.write("bad.md", exported.replace("ci.sh", "a["));
    let refused = env.run(["plan", "check", "bad.md"]).code(1);
    refused.stderr_contains("tasks.task-001.protected: \"a[\": unclosed character class");
    env.run(["task", "edit", "task-001", "--protected", "a["]).code(1).stderr_contains("\"a[\"");
    env.run(["task", "edit", "task-001", "--no-protected"]).success();
    assert_eq!(env.task(0).get("protected"), None);
    env.run(["task", "edit", "task-001", "--no-protected", "--protected", "a"]).code(2);
    env.run(["task", "edit", "task-001", "--protected", "a"]).success();
    env.run(["task", "edit", "task-001", "--protected", ""]).success();
    assert_eq!(env.task(0).get("protected"), None);
}

#[test]
fn a_glob_in_the_ledger_that_cannot_be_read_is_named_and_other_shapes_are_kept() {
    let env = TestEnvironment::of_worker();
    env.run(["add", "x", "--validate", "true"]).success();
    let ledger = env.read("harness-tasks.json");
    let with = |value: &str| {
        ledger.replacen("\"title\"", &format!("\"protected\": {value}, \"title\""), 1)
    };
    env.write("harness-tasks.json", with("[\"a[\"]"));
    let refused = env.run(["add", "y"]).code(5);
    refused.stderr_contains("task-001").stderr_contains("protected").stderr_contains("\"a[\"");
    env.write("harness-tasks.json", with("{\"by\": \"another program\"}"));
    env.run(["task", "edit", "task-001", "--priority", "P0"]).success();
    assert_eq!(env.task(0)["protected"]["by"], "another program");
}
