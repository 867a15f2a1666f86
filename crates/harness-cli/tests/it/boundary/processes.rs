//! The processes that a script starts end with it.

use std::{fs, process::Stdio};

use crate::{
    environment::TestEnvironment,
    host::world,
    objective::stage::{fifo, hear},
};

/// Returns whether the process whose number is in the file runs.
fn runs(env: &TestEnvironment, file: &str) -> bool {
    let pid = env.read(env.home().join(file));
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Returns a command line that leaves a process behind, with its own session and environment, and
/// stores its number.
fn deserter(env: &TestEnvironment, file: &str) -> String {
    let file = env.home().join(file);
    let (file, path) = (file.display(), std::env::var("PATH").unwrap());
    format!(
        "( setsid env -i PATH='{path}' sh -c 'echo $$ > {file}.new; mv {file}.new {file}; \
         exec sleep 600' >/dev/null 2>&1 & ); until [ -s {file} ]; do :; done"
    )
}

#[test]
fn x_h4_what_a_script_of_a_run_started_ends_with_it() {
    let env = world();
    let scripts = ["init", "check", "gate", "cleanup", "notify"];
    let [init, check, gate, cleanup, notify] = scripts.map(|file| deserter(&env, file));
    env.write("harness-init.sh", format!("#!/bin/sh\n{init}\n"));
    env.write("harness.toml", format!("notify = '''{notify}'''\n"));
    env.git(["add", "harness-init.sh", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "scripts"]);
    env.run(["trust", "--yes"]).success();
    let task = |title: &str, validate: &str| {
        let args = ["add", title, "--validate", validate, "--instructions", "true"];
        let more = ["--cleanup", &cleanup, "--max-attempts", "1", "--phase", "Only"];
        env.run(args.iter().chain(&more)).success();
    };
    task("one", &format!("{check}; true"));
    task("two", "false");
    let mut ledger: serde_json::Value =
        serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    ledger["phases"] = serde_json::json!([{ "name": "Only", "gate": { "command": gate } }]);
    env.write("harness-tasks.json", ledger.to_string());
    env.run(["trust", "--yes"]).success();
    env.run(["run", "--agent", "shell"]);
    for script in scripts.iter().filter(|script| env.home().join(script).exists()) {
        assert!(!runs(&env, script), "{script}");
    }
    for script in ["init", "check", "cleanup", "notify"] {
        assert!(env.home().join(script).exists(), "{script} was run");
    }
}

#[test]
fn x_h4_what_a_check_of_a_daemon_started_ends_with_it() {
    let env = world();
    env.run(["add", "one", "--validate", &deserter(&env, "check")]).success();
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "task-001"]).success();
    assert!(!runs(&env, "check"));
    // Without a host the command itself runs the check.
    let env = env.variable("HARNESS_DAEMON", "off");
    env.run(["add", "two", "--validate", &deserter(&env, "alone")]).success();
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "task-002"]).success();
    assert!(!runs(&env, "alone"));
}

#[test]
fn x_h4_a_check_ends_with_the_harness_that_is_killed() {
    let env = world();
    let up = fifo(&env, "up");
    let check = format!("{}; echo up > {}; exec sleep 600", deserter(&env, "check"), up.display());
    env.run(["add", "one", "--validate", &check, "--instructions", "true"]).success();
    let mut run = env.harness(["run", "--agent", "shell"]).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(hear(&up), "up");
    run.kill().unwrap();
    run.wait().unwrap();
    // Its guard ends it, at a time that is not reported.
    while runs(&env, "check") {
        std::thread::yield_now();
    }
}

#[test]
fn x_h4_one_that_stops_its_guard_hangs_nobody() {
    let env = world();
    let stops = "kill -STOP $PPID; exit 0";
    let of_agent = ["add", "one", "--validate", "true", "--instructions", stops];
    env.run(of_agent.iter().chain(&["--attempt-timeout", "1", "--max-attempts", "1"])).success();
    env.run(["run", "--agent", "shell"]).code(4);
    assert_eq!(env.task(0)["status"], "failed");
    // This is the check of a client.
    env.run(["add", "two", "--validate", stops, "--timeout", "1"]).success();
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "task-002"]).code(1);
    assert_eq!(env.task(1)["status"], "in_progress");
}
