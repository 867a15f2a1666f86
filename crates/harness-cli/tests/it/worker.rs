//! `harness worker-id`

use std::process::Stdio;

use crate::environment::{Ran, TestEnvironment};

#[test]
fn one_terminal_is_one_worker_and_another_is_another() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", "{}");
    let children: Vec<_> = (0..8)
        .map(|_| env.harness(["worker-id"]).stdout(Stdio::piped()).spawn().unwrap())
        .collect();
    let ids: Vec<_> =
        children.into_iter().map(|child| child.wait_with_output().unwrap().stdout).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let here = env.run(["worker-id"]).success().stdout("[WORKER]").raw().to_owned();
    assert_eq!(format!("{here}\n").as_bytes(), ids[0]);

    let mut setsid = env.program("setsid");
    let setsid = setsid.args(["--wait", env!("CARGO_BIN_EXE_harness"), "worker-id"]);
    let elsewhere = setsid.output().unwrap();
    assert_ne!(elsewhere.stdout, ids[0]);
    assert_eq!(elsewhere.stdout.len(), ids[0].len());
}

#[test]
fn a_flag_beats_the_variable_beats_the_file() {
    let env = TestEnvironment::new().variable("HARNESS_WORKER_ID_FILE", "my-worker");
    let kept = env.run(["worker-id"]).success().stdout("[WORKER]").raw().to_owned();
    assert_eq!(env.read("my-worker").trim_end(), kept);
    assert!(!env.exists(".harness"));
    let env = env.variable("HARNESS_WORKER_ID", "from-variable");
    env.run(["worker-id"]).success().stdout("from-variable");
    env.run(["worker-id", "--worker", "from-flag"]).success().stdout("from-flag");
    env.run(["worker-id", "--worker", "no/slash"]).code(2).stderr_contains("Error: ");
}

/// Runs a command as agents do: each in a terminal session of its own.
fn apart(env: &TestEnvironment, args: &[&str]) -> Ran {
    let mut setsid = env.program("setsid");
    env.ran(setsid.arg("--wait").arg(env!("CARGO_BIN_EXE_harness")).args(args).output().unwrap())
}

#[test]
fn a_session_of_an_agent_is_one_worker_in_all_of_its_commands() {
    for variable in ["CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"] {
        let env = TestEnvironment::new().variable(variable, "one session");
        env.run(["init"]).success();
        env.run(["add", "one", "--validate", "true"]).success();
        env.run(["add", "two"]).success();
        apart(&env, &["task", "claim"]).success().stdout_contains("task-001");
        let step =
            ["task", "checkpoint", "--id", "task-001", "--step", "1", "--total", "2", "half"];
        apart(&env, &step).success();
        // A hook of the same session gets it in another way.
        let hook = env.run_with_input(r#"{"session_id":"one session"}"#, ["hook", "claim"]);
        assert_eq!(hook.success().json()["task_id"], "task-001");
        let other = env.variable(variable, "another");
        let complete = ["task", "complete", "--id", "task-001"];
        apart(&other, &complete).code(1).stderr_contains("not claimed by");
        let env = other.variable(variable, "one session");
        apart(&env, &complete).success();
        assert!(!env.exists(".harness/workers"));
    }
}

#[test]
fn what_a_person_chose_beats_the_session() {
    let env = TestEnvironment::new().variable("CLAUDE_CODE_SESSION_ID", "s");
    let of_session = env.run(["worker-id"]).success().raw().to_owned();
    let env = env.variable("HARNESS_WORKER_ID_FILE", "kept");
    let of_file = env.run(["worker-id"]).success().raw().to_owned();
    assert_ne!(of_file, of_session);
    assert_eq!(env.read("kept").trim_end(), of_file);
    let env = env.variable("HARNESS_WORKER_ID", "w");
    env.run(["worker-id"]).success().stdout("w");
}

#[test]
fn the_kept_id_never_makes_a_work_tree_dirty() {
    let env = TestEnvironment::with_git();
    env.write("harness-tasks.json", "{}");
    env.git(["add", "."]);
    env.git(["commit", "--quiet", "--message", "ledger"]);
    env.run(["worker-id"]).success();
    assert!(env.exists(".harness/workers"));
    assert_eq!(env.git(["status", "--porcelain"]), "");
}
