//! Steering a run from another terminal: claiming is paused, and budgets change.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{environment::TestEnvironment, host::world};

/// Waits until `is_true` holds.
fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for: {what}");
        std::thread::yield_now();
    }
}

fn board(env: &TestEnvironment) -> Value {
    env.run(["top", "--json"]).success().json()
}

/// A named pipe, whose reader waits for a writer and the other way round.
fn fifo(env: &TestEnvironment, name: &str) -> PathBuf {
    let path = env.home().join(name);
    assert!(env.program("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn start(env: &TestEnvironment, args: &[&str]) -> Child {
    let log = fs::File::create(env.home().join("run.log")).unwrap();
    env.harness(args).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

fn line_of(path: &PathBuf) -> String {
    let mut line = String::new();
    BufReader::new(fs::File::open(path).unwrap()).read_line(&mut line).unwrap();
    line
}

#[test]
fn a_paused_run_waits_and_goes_on_when_it_is_resumed() {
    let env = world();
    env.run(["add", "one", "--validate", "true", "--instructions", "touch one"]).success();
    env.run(["pause"]).success().stdout_contains("claiming is paused");
    let again = env.run(["pause", "--json"]).success().json();
    assert!(again["paused_at"].is_string(), "{again}");
    env.run(["status"]).success().stdout_contains("PAUSED since");
    env.run(["why", "task-001"]).success().stdout_contains("Next: harness resume");
    env.run(["task", "claim"]).code(1).stderr_contains("claiming is paused since");
    let mut run = start(&env, &["run", "--agent", "shell"]);
    until("the run is there", || board(&env)["run"]["driven"] == true);
    let seen = board(&env);
    assert_eq!(seen["waiting"][0]["kind"], "pause", "{seen}");
    assert_eq!(seen["waiting"][0]["next"], "harness resume");
    assert!(run.try_wait().unwrap().is_none(), "it waits");
    let log = env.home().join("run.log");
    until("it says so", || fs::read_to_string(&log).unwrap().contains("claiming is paused"));
    env.run(["resume"]).success().stdout_contains("claiming goes on");
    assert!(run.wait().unwrap().success());
    assert_eq!(env.task(0)["status"], "completed");
    assert!(
        env.read("harness-progress.txt").contains("WARN claiming goes on, asked for by operator")
    );
}

/// An agent that reports ten tokens, and then waits.
fn spender(env: &TestEnvironment) -> (PathBuf, PathBuf) {
    let (ready, go) = (fifo(env, "ready"), fifo(env, "go"));
    let script = format!(
        "#!/bin/sh\necho '{{\"type\":\"usage\",\"input_tokens\":10,\"output_tokens\":0}}' >> $HARNESS_EVENTS\n\
         echo ready > {}\nread go < {}\ntouch done\necho TASK_COMPLETE\n",
        ready.display(),
        go.display()
    );
    let agent = env.home().join("agent.sh");
    fs::write(&agent, script).unwrap();
    env.run(["add", "one", "--validate", "true"]).success();
    (ready, go)
}

fn agent(env: &TestEnvironment) -> String {
    format!("sh {}", env.home().join("agent.sh").display())
}

#[test]
fn a_lowered_budget_stops_a_run_at_once_and_a_raised_one_lets_it_resume() {
    let env = world();
    let (ready, go) = spender(&env);
    let mut run = start(&env, &["run", "--agent-command", &agent(&env), "--max-tokens", "100"]);
    line_of(&ready);
    let tokens = || env.run(["budget", "--json"]).success().json()["tokens"].clone();
    until("what it used is stored", || tokens() == 10);
    env.run(["budget"]).success().stdout_contains("tokens  10 of 100");
    env.run(["budget", "--max-tokens", "5"]).success().stdout_contains("tokens  10 of 5");
    assert_eq!(run.wait().unwrap().code(), Some(3));
    let seen = board(&env);
    assert_eq!(seen["needs"][0]["kind"], "budget", "{seen}");
    assert_eq!(seen["needs"][0]["text"], "the budget is spent: 10 of 5 tokens");
    let log = fs::read_to_string(env.home().join("run.log")).unwrap();
    assert!(log.contains("the budget of the run was changed by operator"), "{log}");
    // The run is over, so that the files are used. Its usual command resumes it.
    env.run(["budget", "--max-tokens", "1000"]).success().stdout_contains("tokens  10 of 1000");
    let mut run = start(&env, &["run", "--resume"]);
    line_of(&ready);
    fs::write(&go, "go\n").unwrap();
    let code = run.wait().unwrap();
    let log = fs::read_to_string(env.home().join("run.log")).unwrap();
    assert!(code.success(), "{log}");
    assert!(!log.contains("was edited"), "{log}");
    env.run(["budget", "--max-tokens", "2000"]).code(1).stderr_contains("no run is unfinished");
}

#[test]
fn a_raised_budget_holds_for_the_agent_at_work() {
    let env = world();
    let (ready, go) = spender(&env);
    let twice = fs::read_to_string(env.home().join("agent.sh")).unwrap();
    let more =
        "echo '{\"type\":\"usage\",\"input_tokens\":10,\"output_tokens\":0}' >> $HARNESS_EVENTS";
    fs::write(env.home().join("agent.sh"), twice.replace("touch done", more)).unwrap();
    let mut run = start(&env, &["run", "--agent-command", &agent(&env), "--max-tokens", "15"]);
    line_of(&ready);
    env.run(["budget", "--max-tokens", "50", "--max-duration", "1h"]).success();
    fs::write(&go, "go\n").unwrap();
    assert!(
        run.wait().unwrap().success(),
        "{}",
        fs::read_to_string(env.home().join("run.log")).unwrap()
    );
    env.run(["budget", "--max-cost", "-1"]).code(2);
}
