//! `harness acp`, driven by the official client of the Agent Client Protocol (its npm package).

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::Value;

use crate::environment::TestEnvironment;

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/acp_client.mjs");

/// Creates a project with an agent that is this script.
fn world(script: &str) -> (TestEnvironment, String) {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    // The answer to a question goes to the run.
    let env = env.without_variable("HARNESS_DAEMON");
    env.run(["init", "--yes"]).success();
    let agent = env.home().join("agent");
    fs::write(&agent, format!("#!/bin/sh\ncat > /dev/null\n{script}\n")).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.display().to_string();
    (env, agent)
}

/// Runs a scenario, and returns what the client saw.
fn drive(env: &TestEnvironment, scenario: &str, options: &[&str]) -> Value {
    let folder = std::env::var_os("HARNESS_REAL_AGENTS").expect("cargo xtask test --real-agents");
    let package = PathBuf::from(folder).join("acp-sdk/node_modules/@agentclientprotocol/sdk");
    let module = package.join("dist/v1/stable/acp.js");
    let mut node = env.program("node");
    node.arg(CLIENT).arg(module).arg(env!("CARGO_BIN_EXE_harness")).arg(env.root()).arg(scenario);
    let ran = env.ran(node.args(options).output().unwrap()).code(0);
    ran.json()
}

/// Returns the texts of the agent, joined.
fn texts(updates: &Value) -> String {
    let updates = updates.as_array().unwrap().iter();
    let said = updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    said.filter_map(|update| update["content"]["text"].as_str()).collect()
}

#[test]
#[ignore = "needs the ACP client: cargo xtask test --real-agents"]
fn an_objective_is_reached_and_loaded_again() {
    let (env, agent) = world("touch made\necho did it\necho TASK_COMPLETE");
    let seen = drive(&env, "make it", &["--agent-command", &agent, "--verify", "test -f made"]);
    assert_eq!(seen["initialized"]["protocolVersion"], 1);
    assert_eq!(seen["initialized"]["agentCapabilities"]["loadSession"], true);
    assert_eq!(seen["stops"], serde_json::json!(["end_turn"]));
    let said = texts(&seen["before"]);
    assert!(said.contains("did it") && said.contains("The run is complete."), "{said}");
    let again = seen["updates"].as_array().unwrap();
    assert_eq!(again[0]["sessionUpdate"], "user_message_chunk");
    assert_eq!(again[0]["content"]["text"], "make it");
    assert!(texts(&seen["updates"]).contains("The run is complete."));
}

#[test]
#[ignore = "needs the ACP client: cargo xtask test --real-agents"]
fn the_ledger_is_worked_on_and_its_tasks_are_the_plan() {
    let (env, agent) = world("touch made\necho TASK_COMPLETE");
    env.run(["add", "Make it", "--instructions", "x", "--validate", "test -f made"]).success();
    let seen = drive(&env, "/tasks", &["--agent-command", &agent]);
    let updates = seen["before"].as_array().unwrap();
    let plans: Vec<&Value> = updates.iter().filter(|u| u["sessionUpdate"] == "plan").collect();
    let status = |plan: &Value| plan["entries"][0]["status"].as_str().unwrap().to_owned();
    assert_eq!(status(plans[0]), "pending");
    assert!(plans.iter().any(|plan| status(plan) == "in_progress"), "{plans:?}");
    assert_eq!(status(plans.last().unwrap()), "completed");
    assert!(texts(&seen["before"]).contains("1 of 1 tasks are completed"));
}

#[test]
#[ignore = "needs the ACP client: cargo xtask test --real-agents"]
fn a_question_is_answered_in_the_editor() {
    let harness = env!("CARGO_BIN_EXE_harness");
    let ask = format!("'{harness}' ask 'Which one?' --choices left,right > answer\ncat answer");
    let (env, agent) = world(&format!("{ask}\necho TASK_COMPLETE"));
    let seen = drive(&env, "choose", &["--agent-command", &agent]);
    assert_eq!(seen["asked"][0]["toolCall"]["title"], "Which one?");
    assert_eq!(seen["asked"][0]["options"][1]["name"], "right");
    assert!(env.read("answer").contains("left"));
    assert_eq!(seen["stops"], serde_json::json!(["end_turn"]));
}

#[test]
#[ignore = "needs the ACP client: cargo xtask test --real-agents"]
fn a_turn_is_cancelled() {
    let (env, agent) = world("echo at work\nexec sleep 600");
    let seen = drive(&env, "cancel", &["--agent-command", &agent]);
    assert_eq!(seen["stops"], serde_json::json!(["cancelled"]));
}
