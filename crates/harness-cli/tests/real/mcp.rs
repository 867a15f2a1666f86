//! The tools of `harness mcp`, called by the real agents that `harness run` starts.

use harness_sim::model::{Call, Script, Step};
use serde_json::{Value, json};

use crate::{
    claude, codex,
    environment::TestEnvironment,
    world::{World, eventually},
};

pub(crate) fn tool(name: &str, input: Value) -> Step {
    Step::call(Call::Named { name: format!("mcp__harness__{name}"), input })
}

fn done() -> Step {
    Step::text("All is done. TASK_COMPLETE")
}

fn checkpoint() -> Step {
    tool("task_checkpoint", json!({ "step": 1, "total": 2, "description": "half of the work" }))
}

/// Checks that a checkpoint is in the log. `offered` is the form in which the agent offers the
/// tools to its model.
fn a_checkpoint_is_in_the_log(set_up: fn(TestEnvironment, &str) -> TestEnvironment, offered: &str) {
    let handoff = json!({ "phase": "build", "next_step": "write two" });
    let steps = [
        checkpoint(),
        tool("handoff_write", handoff),
        tool("task_add", json!({ "title": 5 })),
        Step::shell("echo 1 > one"),
        tool("task_complete", json!({})),
        done(),
    ];
    let world = World::new(|_| Script::new(steps), set_up);
    world.env.run(["add", "one", "--instructions", "Do it", "--validate", "grep 1 one"]).success();
    world.env.run(["run"]).success();
    let task = world.env.task(0);
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(task["checkpoints"][0]["description"], "half of the work");
    let log = world.env.read("harness-progress.txt");
    assert!(log.contains("half of the work"), "{log}");
    assert!(world.env.read("state/handoff.json").contains("write two"));
    let bodies = world.model.served().bodies;
    // The prompt mentioned the tools, no permission was asked for, and the error was returned.
    assert!(bodies[0].contains("your tool `task_checkpoint`"), "{}", bodies[0]);
    assert!(bodies[0].contains(offered), "{}", bodies[0]);
    assert!(bodies[3].contains("invalid type: integer"), "{}", bodies[3]);
    assert!(bodies[5].contains("requested"), "{}", bodies[5]);
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_checkpoint_of_claude_is_in_the_log() {
    a_checkpoint_is_in_the_log(claude::set_up, "mcp__harness__ask_user");
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_checkpoint_of_codex_is_in_the_log() {
    // Its model has to search for the tools of a server, and gets a description of what it would
    // find.
    a_checkpoint_is_in_the_log(codex::set_up, "- harness: harness keeps a ledger of tasks");
}

/// Its sandbox isolates its shell. The server of the tools is outside of it.
#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn codex_is_told_of_its_tools_where_its_shell_can_not_report() {
    let harness = env!("CARGO_BIN_EXE_harness");
    let by_shell = format!("{harness} task checkpoint --step 1 --total 2 half");
    let steps = [Step::shell(&by_shell), checkpoint(), Step::shell("echo 1 > one"), done()];
    let world = World::new(|_| Script::new(steps), codex::set_up);
    world.env.run(["add", "one", "--instructions", "Do it", "--validate", "grep 1 one"]).success();
    world.env.run(["run"]).success();
    assert_eq!(world.env.task(0)["checkpoints"].as_array().unwrap().len(), 1);
    let told = &world.model.served().bodies[1];
    assert!(told.contains("call the tool `task_checkpoint`"), "{told}");
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn claude_asks_a_person_and_is_answered() {
    let question = json!({ "question": "Which number?", "choices": ["one", "two"] });
    let script = Script::new([tool("ask_user", question), done()]);
    // An answer from another terminal goes to the run.
    let set_up = |env, url: &str| claude::set_up(env, url).without_variable("HARNESS_DAEMON");
    let world = World::new(|_| script, set_up);
    let mut harness = world.start(&["run", "Do it"]);
    let open = || world.env.run(["questions"]).raw().to_owned();
    eventually("it is asked", || open().contains("Which number?"));
    let id = open().split(':').next().unwrap().to_owned();
    world.env.run(["reply", &id, "two"]).success();
    assert!(harness.wait().unwrap().success());
    let bodies = world.model.served().bodies;
    assert!(bodies[1].contains("prompt_id"), "{}", bodies[1]);
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn who_wants_no_tools_gets_none() {
    let world = World::new(|_| Script::new([Step::shell("echo 1 > one"), done()]), claude::set_up);
    let config = world.env.read("harness.toml");
    world.env.write("harness.toml", format!("{config}mcp = false\n"));
    world.env.git(["commit", "--quiet", "--all", "--message", "no tools"]);
    world.env.run(["add", "one", "--instructions", "Do it", "--validate", "grep 1 one"]).success();
    world.env.run(["run"]).success();
    let bodies = world.model.served().bodies;
    assert!(bodies[0].contains("harness task checkpoint"), "{}", bodies[0]);
    assert!(bodies.iter().all(|body| !body.contains("mcp__harness__")));
}
