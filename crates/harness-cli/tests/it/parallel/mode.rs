//! The mode of a ledger, the ids of workers, and several processes on one ledger.

use serde_json::Value;

use super::stage::{add, add_independent, all_landed_once, ledger, nothing_left, workers, world};
use crate::objective::stage::{Going, beside, fifo, hear, rows};

/// Returns a script that reports that it works and then waits for the test.
fn held(env: &crate::environment::TestEnvironment) -> (String, [std::path::PathBuf; 2]) {
    let pipes = [fifo(env, "at-work"), fifo(env, "enough")];
    let [at_work, enough] = pipes.each_ref().map(|path| path.display().to_string());
    let script = format!("echo $HARNESS_WORKER_ID > {at_work}; read word < {enough}; touch held");
    (script, pipes)
}

#[test]
fn the_mode_follows_the_number_of_workers() {
    let env = world();
    let mode = || ledger(&env)["session_config"]["concurrency_mode"].clone();
    add_independent(&env, 1, "");
    env.run(["run", "--agent", "shell"]).success();
    assert_eq!(mode(), "exclusive");
    add(&env, "touch a; pwd > where", "test -f a", &[]);
    env.run(["run", "--agent", "shell", "--worktree"]).success();
    assert_eq!(mode(), "concurrent");
    add(&env, "touch b; pwd >> where", "test -f b", &[]);
    env.run(["run", "--agent", "shell"]).success();
    let trees = format!("{}/.harness/worktrees/w.1", env.root().display());
    assert_eq!(env.read("where"), format!("{trees}\n{trees}\n"));
    add(&env, "touch c; pwd >> where", "test -f c", &[]);
    let ran = env.run(["run", "--agent", "shell", "--workers", "1"]).success();
    assert!(ran.errors().contains("concurrency_mode is exclusive now"), "{}", ran.errors());
    assert_eq!(mode(), "exclusive");
    assert_eq!(env.read("where"), format!("{trees}\n{trees}\n{}\n", env.root().display()));
}

#[test]
fn options_of_several_workers_are_refused_for_one() {
    let env = world();
    env.run(["run", "--agent", "shell", "--target", "b"]).code(2).stderr_contains("--workers N");
    env.run(["run", "--agent", "shell", "--workers", "0"]).code(2);
    env.run(["run", "do it", "--workers", "2"]).code(2);
}

#[test]
fn a_branch_named_harness_is_named_before_anything_is_claimed() {
    let env = world();
    env.git(["branch", "harness"]);
    add_independent(&env, 1, "");
    env.run(["run", "--agent", "shell", "--workers", "2"])
        .code(5)
        .stderr_contains("git branch -m harness");
    assert_eq!(ledger(&env)["tasks"][0]["status"], "pending");
}

#[test]
fn an_exclusive_session_keeps_workers_out() {
    let env = world();
    let (script, [at_work, enough]) = held(&env);
    add(&env, &script, "test -f held", &[]);
    add_independent(&env, 1, "");
    let run = Going::start(&env, &["run", "--agent", "shell"]);
    assert_eq!(hear(&at_work), "w");
    for other in [&["run", "--agent", "shell", "--workers", "2"][..], &["work", "--agent", "shell"]]
    {
        let words = "Another harness session is active (pid=[PID])";
        let ran = env.run(other).code(1);
        assert!(ran.errors().contains(words), "{}", ran.errors());
    }
    std::fs::write(enough, "enough\n").unwrap();
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn one_more_worker_joins_the_run_and_pays_from_its_budget() {
    let env = world();
    let (script, [at_work, enough]) = held(&env);
    add(&env, &script, "test -f held", &[]);
    add_independent(&env, 4, "");
    let run = Going::start(&env, &["run", "--agent", "shell", "--worktree", "--task", "task-001"]);
    assert_eq!(hear(&at_work), "w.1");
    assert_eq!(workers(&env), ["w.1"]);
    // An id that was chosen by hand is not changed.
    env.run(["work", "--worker", "w.1"]).code(1).stderr_contains("Worker w.1 is already running");
    env.run(["run", "--workers", "1", "--agent", "shell"]).code(1);
    let other = Going::start(&env, &["work", "--worker", "second"]);
    let done = |id: &str| env.read("harness-progress.txt").contains(&format!("Completed [{id}]"));
    crate::mcp::eventually("the other tasks are done", || {
        ["task-002", "task-003", "task-004", "task-005"].into_iter().all(done)
    });
    std::fs::write(enough, "enough\n").unwrap();
    let ended = other.end();
    assert_eq!(ended.0, Some(0), "{}", ended.2);
    let ended = run.end();
    assert_eq!(ended.0, Some(0), "{}", ended.2);
    all_landed_once(&env, "main");
    nothing_left(&env);
    let parents = rows(&env, "SELECT DISTINCT parent_run_id FROM runs WHERE task_id IS NOT NULL");
    let runs = rows(&env, "SELECT run_id, status FROM runs WHERE task_id IS NULL");
    assert_eq!(parents.len(), 1, "{parents:?}");
    let [run] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!(parents[0]["parent_run_id"], run["run_id"]);
    assert_eq!(run["status"], "succeeded");
}

#[test]
fn a_client_claims_and_completes_beside_a_run_of_several_workers() {
    let env = world();
    let (script, [at_work, enough]) = held(&env);
    add(&env, &script, "test -f held", &[]);
    add(&env, "-", "true", &[]);
    let run = Going::start(&env, &["run", "--agent", "shell", "--worktree", "--task", "task-001"]);
    assert_eq!(hear(&at_work), "w.1");
    let claim = beside(&env, &["task", "claim", "--worker", "client"]);
    let claim: Value = serde_json::from_str(&claim).unwrap();
    assert_eq!(claim["task"]["id"], "task-002", "{claim}");
    let done = beside(&env, &["task", "complete", "--worker", "client", "--id", "task-002"]);
    assert!(!done.contains("Error"), "{done}");
    assert_eq!(ledger(&env)["tasks"][1]["status"], "completed");
    std::fs::write(enough, "enough\n").unwrap();
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn a_worker_without_a_run_is_a_run_of_its_own_and_begins_the_mode() {
    let env = world();
    add_independent(&env, 2, "");
    let ran = env.run(["work", "--agent", "shell", "--json"]).success();
    let document: Value = ran.json();
    assert_eq!(document["outcome"], "succeeded");
    assert!(ran.errors().contains("concurrency_mode is concurrent now"), "{}", ran.errors());
    all_landed_once(&env, "main");
    nothing_left(&env);
}

#[test]
fn a_worker_that_has_the_project_at_another_path_is_named() {
    use harness::store::{Registry, WorkerRecord};
    let env = world();
    add_independent(&env, 1, "");
    let id = harness_core::WorkerId::parse("far").unwrap();
    let mut record = WorkerRecord::of_this_process(id, harness_core::Timestamp::from_seconds(1));
    record.worktree = Some("/mounted/elsewhere/.harness/worktrees/far".into());
    let alive = Registry::of(env.root()).register(record).unwrap();
    let ran = env.run(["work", "--agent", "shell"]).code(5);
    assert!(
        ran.errors().contains("worker far has this project at another path"),
        "{}",
        ran.errors()
    );
    drop(alive);
    env.run(["work", "--agent", "shell"]).success();
    all_landed_once(&env, "main");
}
