//! `harness report` and `harness why`

use insta::assert_snapshot;

use crate::evidence::{add, world};

/// Removes the duration of checks, which differs from run to run.
fn without_times(text: &str) -> String {
    let time = regex::Regex::new(r"\d+ ms|\b\d+ s\b").unwrap();
    let commit = regex::Regex::new(r"\b[0-9a-f]{7}\b").unwrap();
    let text = time.replace_all(text, "[MS]");
    commit.replace_all(&text, "[COMMIT]").into_owned()
}

#[test]
fn the_morning_page_says_what_landed_what_failed_and_what_waits() {
    let env = world();
    env.run(["report"]).success().stdout_contains("Landed (0)");
    add(&env, "touch one", "test -f one", &["--priority", "P0"]);
    add(&env, "echo x > junk", "test -f two", &["--max-attempts", "1"]);
    add(&env, "touch three", "test -f three", &["--depends-on", "task-002"]);
    env.run(["run", "--agent", "shell"]).code(4);
    env.run(["add", "nobody can check this"]).success();
    env.run(["add", "later", "--validate", "true", "--priority", "P2"]).success();
    assert_snapshot!(without_times(env.run(["report"]).success().output()), @"
    Landed (1)
      task-001  [COMMIT]  [MS]  test -f one  a task

    Failed (2)
      task-002  a task (1/1, for good)
        [TEST_FAIL] The check failed (exit code 1)
        look:  harness rescue show task-002/1
        agent: .harness/transcripts/task-002.2.0.log
        next:  harness task retry task-002
      task-003  a task (0/3, for good)
        [DEPENDENCY] Blocked by failed task-002
        next:  harness why task-002

    Waits for you (1)
      task-004  has no validation.command, so it cannot be finished  harness task edit task-004 --validate COMMAND

    Still to do (1)
      harness run
    ");
    let page = env.run(["report", "--json"]).success().json();
    assert_eq!(page["landed"][0]["command"], "test -f one");
    assert_eq!(page["failed"][0]["rescue"], "task-002/1");
    assert_eq!(page["failed"][0]["next"], "harness task retry task-002");
    assert_eq!(page["waiting"][0]["id"], "task-004");
    assert_eq!(page["open"], serde_json::json!(["task-005"]));
}

#[test]
fn why_says_from_the_facts_where_a_task_stands() {
    let env = world();
    add(&env, "touch one", "test -f one", &["--priority", "P0"]);
    add(&env, "echo x > junk", "test -f two", &["--max-attempts", "1"]);
    add(&env, "touch three", "test -f three", &["--depends-on", "task-002"]);
    env.run(["run", "--agent", "shell"]).code(4);
    env.run(["add", "no check"]).success();
    env.run(["add", "later", "--validate", "true", "--depends-on", "task-004"]).success();
    for (id, reason, next) in [
        (
            "task-001",
            "It is completed: `test -f one` passed in the work tree at ",
            "harness verify task-001",
        ),
        (
            "task-002",
            "It failed for good after 1 of 1 attempts: [TEST_FAIL] ",
            "harness task retry task-002",
        ),
        (
            "task-003",
            "It failed because of what it depends on: [DEPENDENCY] Blocked by failed task-002",
            "harness why task-002",
        ),
        (
            "task-004",
            "It is next in line. It has no validation.command",
            "harness task edit task-004 --validate COMMAND",
        ),
        ("task-005", "It is not running yet: waits for task-004.", "harness why task-004"),
    ] {
        let told = env.run(["why", id, "--json"]).success().json();
        assert!(told["reason"].as_str().unwrap().starts_with(reason), "{told}");
        assert_eq!(told["next"], next);
        env.run(["why", id]).success().stdout_contains(reason).stdout_contains(next);
    }
    let failed = env.run(["why", "task-002", "--json"]).success().json();
    assert_eq!(failed["rescues"], serde_json::json!(["task-002/1"]));
    assert!(failed["log"].as_array().unwrap().len() >= 3, "{failed}");
    env.run(["why", "task-01"]).code(1).stderr_contains("did you mean `task-001`?");
}
