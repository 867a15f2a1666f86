//! What dead workers left behind is removed, and nothing is lost.

use serde_json::{Value, json};

use super::stage::{add, nothing_left, tasks, workers, world};
use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, fifo, hear},
};

/// Starts a run whose only worker changes a file and hangs, and kills it.
fn killed(env: &TestEnvironment) -> String {
    let ready = fifo(env, "ready");
    let script = format!("echo work > precious\necho ready > {}\nexec sleep 600", ready.display());
    let task = add(env, &script, "test -f precious", &[]);
    let mut run = Going::start(env, &["run", "--agent", "shell", "--worktree"]);
    assert_eq!(hear(&ready), "ready");
    run.kill();
    task
}

fn kinds(document: &Value) -> Vec<&str> {
    let removed = document["removed"].as_array().unwrap();
    removed.iter().map(|item| item["kind"].as_str().unwrap()).collect()
}

#[test]
fn the_guard_of_a_root_that_is_gone_is_removed() {
    let gone = TestEnvironment::new();
    gone.run(["init"]).success();
    gone.run(["add", "x", "--validate", "true"]).success();
    let guard = harness::home::Home::of(gone.root()).lock_guard();
    assert_eq!(std::fs::read_to_string(&guard).unwrap(), gone.root().to_str().unwrap());
    let (env, kept) = (world(), std::fs::read(&guard).unwrap());
    env.run(["gc"]).success();
    assert!(guard.exists(), "its root is there");
    drop(gone);
    std::fs::write(&guard, kept).unwrap();
    env.run(["gc"]).success();
    assert!(!guard.exists());
}

#[test]
fn the_tree_of_a_dead_worker_goes_when_its_task_is_free_and_its_work_is_saved() {
    let env = world();
    let task = killed(&env);
    let open = env.run(["gc", "--json"]).success().json();
    assert_eq!(open["removed"], json!([]), "the next worker recovers it");
    assert_eq!(workers(&env), ["w.1"]);
    env.run(["task", "release", &task]).success();
    let plan = env.run(["gc", "--dry-run", "--json"]).success().json();
    assert_eq!(kinds(&plan)[0], "work_tree");
    assert_eq!((&plan["workers"], &plan["dry_run"]), (&json!(["w.1"]), &json!(true)));
    assert!(plan["bytes"].as_u64().unwrap() > 0);
    env.run(["gc", "--dry-run"]).success().stdout_contains("would remove the work tree");
    assert!(env.exists(".harness/worktrees/w.1/precious"), "a dry run removes nothing");
    let done = env.run(["gc"]).success();
    assert!(done.output().contains("saved as refs/harness/rescue/"), "{}", done.output());
    assert!(!env.exists(".harness/worktrees/w.1"));
    let rescue = env.git(["for-each-ref", "--format=%(refname)", "refs/harness/rescue"]);
    let rescue = rescue.lines().next().unwrap();
    assert_eq!(env.git(["show", &format!("{rescue}:precious")]), "work");
    env.run(["gc"]).success();
    env.run(["gc"]).success().stdout("nothing to remove");
    nothing_left(&env);
    assert_eq!(tasks(&env)[0]["status"], "pending");
}

#[test]
fn rescues_go_after_their_days() {
    let env = world();
    env.write("harness.toml", "[keep]\nrescue_days = 1\n");
    env.run(["trust", "--yes"]).success();
    // The commits of a test have a date of the past.
    env.git(["update-ref", "refs/harness/rescue/task-009/1", "HEAD"]);
    env.run(["gc"]).success().stdout_contains("the rescue refs/harness/rescue/task-009/1");
    assert_eq!(env.git(["for-each-ref", "refs/harness"]), "");
}
