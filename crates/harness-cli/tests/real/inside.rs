//! A person's own session of a real agent, after `harness install`: nobody supervises it but the
//! hooks.

use std::{
    ffi::OsString,
    path::Path,
    process::{Output, Stdio},
};

use harness_sim::model::{Script, Step};
use serde_json::Value;

use crate::{claude, environment::TestEnvironment, world::World};

/// A project with a ledger of one task, and harness on the PATH.
fn world(script: Script) -> World {
    let set_up = |env: TestEnvironment, url: &str| with_harness(claude::set_up(env, url));
    let world = World::new(|_| script, set_up);
    world.env.run(["add", "Write one", "--validate", "grep 1 one"]).success();
    world
}

/// The program under test beside the agent.
fn with_harness(env: TestEnvironment) -> TestEnvironment {
    let path = crate::world::path_with("claude");
    let bin = Path::new(env!("CARGO_BIN_EXE_harness")).parent().unwrap().to_owned();
    let path: Vec<_> = [bin].into_iter().chain(std::env::split_paths(&path)).collect();
    let path: OsString = std::env::join_paths(path).unwrap();
    env.variable("PATH", path).variable("REFLECT_MAX_ITERATIONS", "1")
}

/// What a person types into a session that ends with its turn.
fn session(env: &TestEnvironment, prompt: &str) -> String {
    let mut command = env.program("claude");
    command.args(["-p", prompt, "--output-format", "json", "--allowedTools", "Bash"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let Output { status, stdout, stderr } = &output;
    let said = String::from_utf8_lossy(stdout);
    assert!(status.success(), "{said}\n{}", String::from_utf8_lossy(stderr));
    let result: Value = serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {said}"));
    result["result"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn claude_is_kept_going_until_the_ledger_is_done_and_then_let_go() {
    let world = world(Script::new([
        Step::text("That should do."),
        Step::shell("harness task claim"),
        Step::text("I claimed it, that is enough."),
        Step::shell("echo 1 > one && harness task complete --id task-001"),
        Step::text("Done."),
        Step::text("Nothing to mend."),
    ]));
    world.env.run(["install", "claude"]).success();
    assert_eq!(session(&world.env, "/harness run"), "Nothing to mend.");
    let bodies = world.model.served().bodies;
    let asked = |at: usize, words: &str| {
        assert!(bodies[at].contains(words), "no {words:?} in {}", bodies[at]);
    };
    assert_eq!(bodies.len(), 6);
    asked(0, "HARNESS: pending=1 total=1 next=task-001: Write one");
    asked(0, "# Working with harness");
    asked(0, "The user typed: /harness run");
    asked(1, "the ledger has work left, so do not stop yet");
    asked(3, "HARNESS: in progress: [task-001] Write one");
    asked(5, "[Self-Reflect] All tasks are done. Look back once more, 1/1");
    let ledger: Value = serde_json::from_str(&world.env.read("harness-tasks.json")).unwrap();
    assert_eq!(ledger["tasks"][0]["status"], "completed");
    for marker in [".harness-active", ".harness-reflect", ".harness-stop-counter"] {
        assert!(!world.env.exists(marker), "{marker}");
    }
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn claude_is_let_go_where_hooks_are_off_or_gone() {
    let world = world(Script::new([Step::text("No.")]).repeating());
    world.env.run(["install", "claude", "--user"]).success();
    let World { env, model } = world;
    let env = env.variable("HARNESS_HOOKS", "off");
    assert_eq!(session(&env, "Do it"), "No.");
    assert_eq!(model.served().bodies.len(), 1);
    let env = env.without_variable("HARNESS_HOOKS");
    // It gets nowhere, and is kept no more than eight times.
    session(&env, "Do it");
    assert_eq!(model.served().bodies.len(), 1 + 9);
    env.run(["uninstall", "claude", "--user"]).success();
    assert_eq!(session(&env, "Do it"), "No.");
    assert_eq!(model.served().bodies.len(), 1 + 9 + 1);
}
