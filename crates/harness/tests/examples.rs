//! Every example runs and prints the expected output.

#![allow(clippy::unwrap_used, reason = "clippy only knows #[test] functions")]

use std::process::{Command, Output};

use harness::store::Runs;
use harness_sim::conformance::repository::Repository;

fn run(example: &str) -> String {
    run_with(example, &[])
}

fn run_with(example: &str, args: &[&str]) -> String {
    let output = output(example, args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the output of an example. Cargo builds the examples beside the tests, unless only one
/// test was requested.
fn output(example: &str, args: &[&str]) -> Output {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples").join(example);
    if !program.exists() {
        let build = ["build", "--quiet", "--package", "harness-supervisor", "--examples"];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    Command::new(&program).args(args).output().unwrap_or_else(|e| panic!("{program:?}: {e}"))
}

#[test]
fn hello() {
    assert_eq!(run("hello"), "Hello, world!\n");
}

#[test]
fn ledger() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().canonicalize().unwrap();
    assert_eq!(run_with("ledger", &[path.to_str().unwrap()]), "task-001 completed\n");
    let hash = harness::home::root_hash(&path);
    std::fs::remove_file(format!("/tmp/harness-{hash}.lock.guard")).unwrap();
}

/// A run that a program drives has the rows, the budget and the resume of `harness run`.
#[test]
fn run_stops_at_its_budget_and_is_resumed() {
    let repository = Repository::new();
    let state_home = repository.beside("state");
    let arguments = [repository.root.to_str().unwrap(), state_home.to_str().unwrap()];
    assert_eq!(run_with("run", &arguments), "budget: stopped, 10 tokens\n");
    let resumed = "complete: succeeded, 20 tokens\nHello, moon!\n";
    assert_eq!(run_with("run", &arguments), resumed);
    assert_eq!(repository.git(["show", "HEAD:greeting.txt"]), "Hello, moon!");
    let runs = harness::store::RunStore::look(&repository.root).unwrap().unwrap();
    let run = Runs::runs(&runs).unwrap().into_iter().find(|run| run.parent.is_none()).unwrap();
    let events = repository.root.join(".harness/runs").join(format!("{}.jsonl", run.id));
    let events = std::fs::read_to_string(events).unwrap();
    assert_eq!(events.matches("\"harness:complete\"").count(), 2, "{events}");
    let hash = harness::home::root_hash(&repository.root);
    std::fs::remove_file(format!("/tmp/harness-{hash}.lock.guard")).unwrap();
}

/// It needs two models, so the test only checks its usage message.
#[test]
fn real_agents_says_what_it_needs() {
    let output = output("real_agents", &[]);
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("usage: real_agents FOLDER CHECK WISH"), "{said}");
}

#[test]
fn plan_and_code() {
    assert!(run("plan_and_code").starts_with("3 files, "));
}

#[test]
fn human_in_the_loop() {
    assert_eq!(run("human_in_the_loop"), "deployed to staging (staging, and tell the team)\n");
}

#[test]
fn parallel_review() {
    assert_eq!(run("parallel_review"), "4 remarks\n");
}

#[test]
fn custom_agent() {
    assert_eq!(run("custom_agent"), "20 tokens\n[\"first line\", \"second line\"]\n");
}

#[test]
fn claim() {
    let expected = "task-001: Write the parser\ntask-001 is completed\n\
                    task-002: Test the parser\ntask-002 is completed\n";
    assert_eq!(run("claim"), expected);
}
