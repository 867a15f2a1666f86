//! Tasks that require labels, and the workers that have them.

use serde_json::Value;

use crate::environment::TestEnvironment;

/// Adds a task for everyone, and one that requires two labels and comes first.
fn world() -> TestEnvironment {
    let env = TestEnvironment::of_worker();
    env.run(["add", "train", "--requires", "linux,gpu", "-p", "P0", "--validate", "true"])
        .success();
    env.run(["add", "write", "--validate", "true"]).success();
    env
}

fn claim(env: &TestEnvironment, args: &[&str]) -> Value {
    let args = ["task", "claim"].iter().chain(args);
    env.run(args).success().json()["task"]["id"].clone()
}

fn each_worker_gets_what_its_labels_allow(env: &TestEnvironment) {
    assert_eq!(claim(env, &["--worker", "a", "--label", "gpu"]), "task-002");
    assert_eq!(claim(env, &["--worker", "b", "--label", "gpu"]), Value::Null);
    assert_eq!(
        claim(env, &["--worker", "c", "--label", "gpu,fast", "--label", "linux"]),
        "task-001"
    );
}

#[test]
fn a_task_is_claimed_by_a_worker_with_all_of_its_labels() {
    let env = world();
    assert_eq!(env.task(0)["requires"], serde_json::json!(["gpu", "linux"]));
    each_worker_gets_what_its_labels_allow(&env);
}

#[test]
fn the_daemon_looks_at_labels_too() {
    let env = world().with_daemon();
    each_worker_gets_what_its_labels_allow(&env);
}

#[test]
fn labels_are_set_cleared_and_checked() {
    let env = world();
    env.run(["task", "show", "task-001"]).success().stdout_contains("requires");
    env.run(["task", "edit", "task-001", "--requires", "arm"]).success();
    assert_eq!(env.task(0)["requires"], serde_json::json!(["arm"]));
    env.run(["task", "edit", "task-001", "--requires", ""]).success();
    assert_eq!(env.task(0).get("requires"), None);
    env.run(["task", "edit", "task-001", "--requires", "two words"])
        .code(1)
        .stderr_contains("requires: \"two words\" is not");
    env.run(["task", "claim", "--label", "two words"]).code(2).stderr_contains("two words");
}

#[test]
fn why_explains_a_task_that_nobody_present_can_claim() {
    let env = world();
    env.run(["why", "task-001"])
        .success()
        .stdout_contains(
            "ready for a worker with the labels gpu, linux. No worker that is there has them.",
        )
        .stdout_contains("harness run --label gpu --label linux");
    let record = |labels: &[&str]| {
        let id = harness_core::WorkerId::parse("strong").unwrap();
        let now = harness_core::Timestamp::from_seconds(1_750_000_000);
        let mut record = harness::store::WorkerRecord::of_this_process(id, now);
        record.labels = labels.iter().map(|&label| label.to_owned()).collect();
        record
    };
    let registry = harness::store::Registry::of(env.root());
    let present = registry.register(record(&["gpu", "linux"])).unwrap().unwrap();
    env.run(["why", "task-001"]).success().stdout_contains("strong has them.");
    drop(present);
    let why = env.run(["why", "task-001", "--json"]).success().json();
    assert_eq!(why["able"], serde_json::json!([]));
    assert_eq!(why["standing"], "requires");
}

#[test]
fn a_run_ends_at_tasks_beyond_its_labels_and_names_them() {
    let env = world();
    env.run(["task", "edit", "task-002", "--instructions", "touch written"]).success();
    env.run(["run", "--agent", "shell"])
        .code(3)
        .stderr_contains("no worker of this run has the labels: task-001 requires gpu, linux");
    assert_eq!(env.task(1)["status"], "completed");
    assert_eq!(env.task(0)["status"], "pending");
    env.run(["report"]).success().stdout_contains("and no worker has them");
}
