//! `harness session`: the settings of sessions in the ledger.

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

fn config(env: &TestEnvironment) -> Value {
    let ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    ledger["session_config"].clone()
}

#[test]
fn every_setting_is_shown_and_changed_and_goes_back_to_its_default() {
    let env = TestEnvironment::of_worker();
    let shown = env.run(["session"]).success();
    let shown = shown
        .stdout_contains("concurrency_mode       exclusive  (default; exclusive or concurrent)");
    shown.stdout_contains("max_sessions           50         (default; a whole number from 0");
    for (key, value) in [
        ("concurrency_mode", "concurrent"),
        ("max_tasks_per_session", "0"),
        ("max_sessions", "200"),
    ] {
        env.run(["session", key, value]).success().stdout(value);
        env.run(["session", key]).success().stdout(value);
    }
    let all = json!({
        "concurrency_mode": "concurrent", "max_tasks_per_session": 0, "max_sessions": 200
    });
    assert_eq!(config(&env), all);
    assert_eq!(env.run(["session", "--json"]).success().json()["session_config"], all);
    let one = env.run(["session", "max_sessions", "--json"]).success().json();
    assert_eq!(one["session_config"], json!({ "max_sessions": 200 }));
    env.run(["session"]).success().stdout_contains("200         (default 50; a whole number");
    env.run(["session", "max_sessions", "--unset"]).success().stdout("50");
    env.run(["session", "concurrency_mode", "--unset"]).success().stdout("exclusive");
    let log = env.read("harness-progress.txt");
    assert!(log.contains("WARN max_sessions changed by operator (pid="), "{log}");
    assert!(log.contains(": 50 -> 200\n") && log.contains(": 200 -> 50\n"), "{log}");
}

#[test]
fn bad_values_are_refused_with_the_range_and_nothing_changes() {
    let env = TestEnvironment::of_worker();
    let before = env.read("harness-tasks.json");
    for (key, value, words) in [
        ("max_sessions", "-1", "is not a whole number from 0 to 1000000"),
        ("max_sessions", "many", "is not a whole number from 0 to 1000000"),
        ("max_tasks_per_session", "1000001", "is not a whole number from 0 to 1000000"),
        ("concurrency_mode", "both", "\"both\" is not exclusive or concurrent"),
    ] {
        env.run(["session", key, value]).code(1).stderr_contains(words);
    }
    env.run(["session", "colour", "blue"]).code(2).stderr_contains("max_tasks_per_session");
    env.run(["session", "max_sessions", "5", "--unset"]).code(2);
    assert_eq!(env.read("harness-tasks.json"), before);
    let worker = env.variable("CLAUDECODE", "1");
    let refused = worker.run(["session", "max_sessions", "5"]).code(1);
    refused.stderr_contains("only the operator may change the configuration");
    worker.run(["session"]).success();
}

#[test]
fn a_limit_that_was_raised_lets_the_next_session_begin() {
    let env = TestEnvironment::of_worker();
    env.run(["add", "a", "--instructions", "touch a", "--validate", "test -f a"]).success();
    env.run(["session", "max_sessions", "1"]).success();
    env.run(["session", "max_tasks_per_session", "1"]).success();
    env.run(["add", "b", "--instructions", "touch b", "--validate", "test -f b"]).success();
    env.run(["run", "--agent", "shell"]).code(3).stderr_contains("max_sessions");
    env.run(["session", "max_sessions", "2"]).success();
    env.run(["run", "--agent", "shell"]).success();
    assert_eq!(env.task(1)["status"], "completed");
}
