//! `harness worker-id`

use std::process::Stdio;

use crate::environment::TestEnvironment;

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
