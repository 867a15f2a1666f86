//! Every example runs and says what it should.

#![allow(clippy::unwrap_used, reason = "clippy only knows #[test] functions")]

use std::process::Command;

/// Cargo builds the examples beside the tests, unless it was asked for one test only.
fn run(example: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples").join(example);
    if !program.exists() {
        let build = ["build", "--quiet", "--package", "harness-supervisor", "--examples"];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    let output = Command::new(&program).output().unwrap_or_else(|e| panic!("{program:?}: {e}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn hello() {
    assert_eq!(run("hello"), "Hello, world!\n");
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
