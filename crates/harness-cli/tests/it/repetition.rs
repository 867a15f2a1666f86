//! Requests that a worker sends again because it lost the answer.

use serde_json::json;

use crate::{daemon::world, environment::TestEnvironment};

/// The worlds in which a command works on the files, and in which a daemon answers it.
fn worlds() -> [TestEnvironment; 2] {
    [TestEnvironment::of_worker(), world()]
}

#[test]
fn a_checkpoint_that_is_sent_twice_is_stored_once() {
    for env in worlds() {
        env.run(["add", "a"]).success();
        env.run(["task", "claim"]).success();
        let point = |step: &str, words: &str| {
            let args = ["task", "checkpoint", "task-001", "--step", step, "--total", "3", words];
            env.run(args).success().stdout_contains("Task task-001 is yours until");
        };
        point("1", "routes done");
        point("1", "routes done");
        point("2", "routes done");
        point("1", "routes done");
        let stored = env.task(0)["checkpoints"].as_array().unwrap().len();
        assert_eq!(stored, 3, "only the same one in a row is a repetition");
        let log = env.read("harness-progress.txt");
        assert_eq!(log.matches("CHECKPOINT [task-001]").count(), 3, "{log}");
        // Another attempt may report the same.
        env.run(["task", "release", "task-001"]).success();
        let ledger = env.read("harness-tasks.json");
        let earlier = ledger.replace(
            env.task(0)["checkpoints"][2]["timestamp"].as_str().unwrap(),
            "2025-07-01T10:00:00Z",
        );
        env.write("harness-tasks.json", earlier);
        env.run(["task", "claim"]).success();
        point("1", "routes done");
        assert_eq!(env.task(0)["checkpoints"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn a_failure_that_is_sent_twice_counts_once_and_is_answered_alike() {
    for env in worlds() {
        env.run(["add", "a"]).success();
        let epoch = env.run(["task", "claim"]).success().json()["task"]["epoch"].to_string();
        let fail = |more: &[&str]| {
            let args = ["task", "fail", "task-001", "--json"];
            env.run([&args[..], more].concat())
        };
        let first = fail(&["no compiler", "--epoch", &epoch]).success().json();
        let again = fail(&["no compiler", "--epoch", &epoch]).success().json();
        assert_eq!(first, again);
        assert_eq!(again["retryable"], true);
        fail(&["no compiler"]).success();
        assert_eq!(env.task(0)["attempts"], 1);
        assert_eq!(env.task(0)["error_log"], json!(["[TASK_EXEC] no compiler"]));
        // Other words, another category or another attempt are no repetition.
        for more in [
            &["no linker"][..],
            &["no compiler", "--category", "ENV_SETUP"],
            &["no compiler", "--epoch", "77"],
        ] {
            fail(more).code(1).stderr_contains("Task task-001 is not claimed by w");
        }
        env.run(["task", "claim"]).success();
        fail(&["no compiler"]).success();
        assert_eq!(env.task(0)["attempts"], 2, "the second attempt failed for the same reason");
    }
}
