//! Two different real agents in one run.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
};

use harness_sim::model::{Model, Script, Step};

use crate::{
    claude, codex,
    environment::TestEnvironment,
    scenarios::done,
    world::{LONG, begin, configure, path_with},
};

const HARNESS: &str = "agent = 'claude'
[agents.claude]
model = 'claude-opus-5-5'
[agents.codex]
model = 'gpt-5.5'
price = { input = 1.25, output = 10.0 }
";

/// Starts a model whose agent waits for a file of the test, and then writes one of its own.
fn model(go: &Path, own: &str) -> Model {
    let wait = format!("until test -e {}; do sleep 0.1; done; echo done > {own}", go.display());
    Model::start(Script::new([Step::shell(&wait), done()])).unwrap()
}

fn start(env: &TestEnvironment, args: &[&str]) -> Child {
    let mut command = env.harness(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn claude_and_codex_work_at_the_same_time_and_both_results_land() {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    let go = env.home().join("go");
    let [of_claude, of_codex] = ["by-claude", "by-codex"].map(|own| model(&go, own));
    let env = claude::set_up(env, &of_claude.url());
    let env = codex::set_up(env, &of_codex.url()).variable("PATH", path_with(&["claude", "codex"]));
    configure(&env, HARNESS);
    begin(&env);
    for own in ["by-claude", "by-codex"] {
        env.run(["add", "Write a file", "--validate", &format!("test -f {own}")]).success();
    }
    let mut run = start(&env, &["run", "--worktree", "--task", "task-001"]);
    assert!(of_claude.has_played(1, LONG), "Claude Code is at work");
    let mut work = start(&env, &["work", "--agent", "codex", "--worker", "second"]);
    assert!(of_codex.has_played(1, LONG), "Codex is at work too");
    let workers = env.run(["workers", "--json"]).success().json();
    let tasks = workers["workers"].as_array().unwrap().iter().map(|worker| &worker["task_id"]);
    assert_eq!(tasks.collect::<Vec<_>>(), ["task-002", "task-001"], "{workers}");
    fs::write(&go, "").unwrap();
    for process in [&mut run, &mut work] {
        let log = || env.read("harness-progress.txt");
        assert!(process.wait().unwrap().success(), "{}", log());
    }
    let landed = env.git(["log", "--format=%(trailers:key=Harness-Task,valueonly)", "main"]);
    let mut landed: Vec<&str> = landed.split_whitespace().collect();
    landed.sort_unstable();
    assert_eq!(landed, ["task-001.1", "task-002.2"]);
    assert!(env.exists("by-claude") && env.exists("by-codex"), "the main tree has both");
    let runs = env.run(["runs", "list", "--json"]).success().json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "one run pays for both: {runs}");
    let cost = env.run(["runs", "cost", "--json"]).success().json();
    let [claude, codex] = [&of_claude, &of_codex].map(Model::served);
    assert_eq!(cost["total"]["output_tokens"], claude.output_tokens + codex.output_tokens);
}
