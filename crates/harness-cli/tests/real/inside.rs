//! A person's own session of a real agent, after `harness install`: only the hooks supervise it.

use std::{
    ffi::OsString,
    fs,
    path::Path,
    process::{Output, Stdio},
};

use harness_sim::model::{Script, Step};
use serde_json::{Value, json};

use crate::{
    claude, codex,
    environment::TestEnvironment,
    mcp::tool,
    terminal::Terminal,
    world::{LONG, World, eventually},
};

/// The setup of an agent, by its own name.
type SetUp = (&'static str, fn(TestEnvironment, &str) -> TestEnvironment);

const CLAUDE: SetUp = ("claude", claude::set_up);
const CODEX: SetUp = ("codex", codex::set_up);

/// Returns a project with a ledger of one task, and harness on the PATH.
fn world((agent, set_up): SetUp, script: Script) -> World {
    let set_up = |env: TestEnvironment, url: &str| with_harness(agent, set_up(env, url));
    let world = World::new(|_| script, set_up);
    world.env.run(["add", "Write one", "--validate", "grep 1 one"]).success();
    world
}

/// Adds the program under test beside the agent.
fn with_harness(agent: &str, env: TestEnvironment) -> TestEnvironment {
    let bin = Path::new(env!("CARGO_BIN_EXE_harness")).parent().unwrap().to_owned();
    // Codex runs commands in a login shell, which sets its own PATH.
    fs::write(env.home().join(".profile"), format!("PATH='{}':$PATH\n", bin.display())).unwrap();
    let path = crate::world::path_with(&[agent]);
    let path: Vec<_> = [bin].into_iter().chain(std::env::split_paths(&path)).collect();
    let path: OsString = std::env::join_paths(path).unwrap();
    // No variable names the worker of such a session.
    let env = env.without_variable("HARNESS_WORKER_ID");
    env.variable("PATH", path).variable("REFLECT_MAX_ITERATIONS", "1")
}

/// Returns the output of a session with this prompt, which ends with its turn.
fn session(env: &TestEnvironment, prompt: &str) -> String {
    in_claude(env, prompt, &["--allowedTools", "Bash"])
}

fn in_claude(env: &TestEnvironment, prompt: &str, args: &[&str]) -> String {
    let args = [&["-p", prompt, "--output-format", "json"], args].concat();
    let said = said(env, "claude", &args);
    let result: Value = serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {said}"));
    result["result"].as_str().unwrap().to_owned()
}

/// Runs Codex in its own sandbox.
fn in_codex(env: &TestEnvironment, prompt: &str, args: &[&str]) -> String {
    said(env, "codex", &[&["exec", "-s", "workspace-write"], args, &[prompt]].concat())
}

/// Trusts the project for Codex, which otherwise does not read its files.
fn trust_in_codex(env: &TestEnvironment) {
    let config = env.home().join(".codex/config.toml");
    let trust = format!("[projects.'{}']\ntrust_level = 'trusted'\n", env.root().display());
    let config_text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{config_text}{trust}")).unwrap();
}

fn said(env: &TestEnvironment, agent: &str, args: &[&str]) -> String {
    let output = env.program(agent).args(args).stdin(Stdio::null()).output().unwrap();
    let Output { status, stdout, stderr } = &output;
    let said = String::from_utf8_lossy(stdout).into_owned();
    assert!(status.success(), "{said}\n{}", String::from_utf8_lossy(stderr));
    said
}

/// Returns a script that stops twice before the task is done, and then has nothing to fix.
fn one_that_stops_early() -> Script {
    Script::new([
        Step::text("That should do."),
        Step::shell("harness task claim"),
        Step::text("I claimed it, that is enough."),
        Step::shell("echo 1 > one && harness task complete --id task-001"),
        Step::text("Done."),
        Step::text("Nothing to fix."),
    ])
}

/// Checks that the session received the state of the work at its start, was kept until it was done,
/// and could then end.
fn was_kept_going(world: &World, typed: &str) {
    let bodies = world.model.served().bodies;
    let asked = |at: usize, words: &str| {
        assert!(bodies[at].contains(words), "no {words:?} in {}", bodies[at]);
    };
    assert_eq!(bodies.len(), 6);
    asked(0, "HARNESS: pending=1 total=1 next=task-001: Write one");
    asked(0, "# Working with harness");
    asked(0, typed);
    asked(1, "the ledger has work left, so do not stop yet");
    asked(3, "HARNESS: in progress: [task-001] Write one");
    asked(5, "[Self-Reflect] All tasks are done. Review the work once more, 1/1");
    let ledger: Value = serde_json::from_str(&world.env.read("harness-tasks.json")).unwrap();
    assert_eq!(ledger["tasks"][0]["status"], "completed");
    for marker in [".harness-active", ".harness-reflect", ".harness-stop-counter"] {
        assert!(!world.env.exists(marker), "{marker}");
    }
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn claude_is_kept_going_until_the_ledger_is_done_and_then_let_go() {
    let world = world(CLAUDE, one_that_stops_early());
    world.env.run(["install", "claude"]).success();
    assert_eq!(session(&world.env, "/harness run"), "Nothing to fix.");
    was_kept_going(&world, "The user typed: /harness run");
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn codex_is_kept_going_until_the_ledger_is_done_and_then_let_go() {
    let world = world(CODEX, one_that_stops_early());
    let env = &world.env;
    env.run(["install", "codex"]).success();
    trust_in_codex(env);
    let said = in_codex(env, "$harness run", &["--dangerously-bypass-hook-trust"]);
    assert!(said.trim_end().ends_with("Nothing to fix."), "{said}");
    was_kept_going(&world, "$harness run");
}

/// Returns the repository, which is a marketplace with one plugin.
fn repository() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn the_plugin_keeps_claude_going_until_the_ledger_is_done() {
    let world = world(CLAUDE, one_that_stops_early());
    let env = &world.env;
    said(env, "claude", &["plugin", "validate", &repository()]);
    said(env, "claude", &["plugin", "marketplace", "add", &repository()]);
    said(env, "claude", &["plugin", "install", "harness@harness"]);
    let listed = said(env, "claude", &["plugin", "details", "harness"]);
    for part in ["MCP servers (1)", "Hooks (6)", "Skills (1)"] {
        assert!(listed.contains(part), "no {part} in {listed}");
    }
    assert_eq!(session(env, "/harness:harness run"), "Nothing to fix.");
    was_kept_going(&world, "The user typed: /harness run");
    said(env, "claude", &["plugin", "uninstall", "harness@harness"]);
    assert!(!said(env, "claude", &["plugin", "list"]).contains("harness@harness"));
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn the_plugin_keeps_codex_going_until_the_ledger_is_done() {
    let world = world(CODEX, one_that_stops_early());
    let env = &world.env;
    trust_in_codex(env);
    said(env, "codex", &["plugin", "marketplace", "add", &repository()]);
    said(env, "codex", &["plugin", "add", "harness@harness"]);
    let listed = said(env, "codex", &["plugin", "list"]);
    assert!(listed.contains("installed, enabled"), "{listed}");
    let said = in_codex(env, "$harness:harness run", &["--dangerously-bypass-hook-trust"]);
    assert!(said.trim_end().ends_with("Nothing to fix."), "{said}");
    was_kept_going(&world, "$harness:harness run");
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn claude_is_let_go_where_hooks_are_off_or_gone() {
    let world = world(CLAUDE, Script::new([Step::text("No.")]).repeating());
    world.env.run(["install", "claude", "--user"]).success();
    let World { env, model } = world;
    let env = env.variable("HARNESS_HOOKS", "off");
    assert_eq!(session(&env, "Do it"), "No.");
    assert_eq!(model.served().bodies.len(), 1);
    let env = env.without_variable("HARNESS_HOOKS");
    // A session about something else is left alone.
    assert_eq!(session(&env, "Do it"), "No.");
    assert_eq!(model.served().bodies.len(), 2);
    // It makes no progress, and is kept at most eight times.
    session(&env, "/harness run");
    assert_eq!(model.served().bodies.len(), 2 + 9);
    env.run(["uninstall", "claude", "--user"]).success();
    assert_eq!(session(&env, "Do it"), "No.");
    assert_eq!(model.served().bodies.len(), 2 + 9 + 1);
}

/// Answers the questions that Claude Code asks a person at its first start.
fn greet_claude(env: &TestEnvironment) {
    let root = env.root().display().to_string();
    let key = &claude::KEY[claude::KEY.len() - 20..];
    let answers = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "customApiKeyResponses": { "approved": [key], "rejected": [] },
        "projects": { root: { "hasTrustDialogAccepted": true } },
    });
    fs::write(env.home().join(".claude.json"), answers.to_string()).unwrap();
}

/// Ends its turn after every task. A tool between two blocks resets the count of Claude Code, so
/// that its own cap of 8 is never reached.
#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn an_interactive_claude_works_through_twenty_tasks() {
    const TASKS: usize = 20;
    let id = |n: usize| format!("task-{n:03}");
    let turn = |n: usize| {
        let id = id(n);
        let work = format!("harness task claim && touch {id} && harness task complete --id {id}");
        [Step::shell(&work), Step::text(&format!("{id} is done."))]
    };
    let steps = (1..=TASKS).flat_map(turn).chain([Step::text("Nothing to fix.")]);
    let set_up = |env: TestEnvironment, url: &str| with_harness("claude", claude::set_up(env, url));
    let world = World::new(|_| Script::new(steps), set_up);
    let env = &world.env;
    for n in 1..=TASKS {
        env.run(["add", &format!("Task {n}"), "--validate", &format!("test -f {}", id(n))])
            .success();
    }
    env.run(["install", "claude"]).success();
    greet_claude(env);
    let mut claude = env.program("claude");
    // Its other modes ask a service whether a command may run, and a scripted model is none.
    let leave = ["--permission-mode", "default", "--allowedTools", "Bash"];
    claude.arg("/harness run").args(leave).arg("--strict-mcp-config");
    let terminal = Terminal::start(claude);
    let requests = 2 * TASKS + 1;
    assert!(world.model.has_played(requests, LONG), "{}", terminal.shown());
    eventually("the session looked back and was let go", || !env.exists(".harness-reflect"));
    drop(terminal);
    let ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    let tasks = ledger["tasks"].as_array().unwrap();
    assert!(tasks.len() == TASKS && tasks.iter().all(|task| task["status"] == "completed"));
    let bodies = world.model.served().bodies;
    assert_eq!(bodies.len(), requests);
    assert!(bodies[2].contains("the ledger has work left"), "{}", bodies[2]);
}

/// The hooks have a limit of their own. The variable that `install` sets keeps Claude Code's limit
/// from coming first.
#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn claude_goes_on_with_an_objective_until_it_is_done_or_ten_restarts_are_used_up() {
    let not_yet = || (0..10).map(|_| Step::text("Not yet."));
    let ends: [(Step, &str); 2] = [
        (Step::text("All of it.\n\nTASK_COMPLETE"), "All of it.\n\nTASK_COMPLETE"),
        (Step::text("Still not."), "Still not."),
    ];
    for (end, last) in ends {
        let world = world(CLAUDE, Script::new(not_yet().chain([end])));
        world.env.run(["install", "claude"]).success();
        assert_eq!(session(&world.env, "/harness Write a report"), last);
        let bodies = world.model.served().bodies;
        assert_eq!(bodies.len(), 11);
        assert!(bodies[0].contains("HARNESS: work on this objective now"), "{}", bodies[0]);
        assert!(bodies[10].contains("Restart 10 of 10."), "{}", bodies[10]);
        // The session was not asked for the tasks of the ledger.
        let ledger: Value = serde_json::from_str(&world.env.read("harness-tasks.json")).unwrap();
        assert_eq!(ledger["tasks"][0]["status"], "pending");
    }
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn codex_goes_on_with_an_objective_until_it_is_done() {
    let steps = [Step::text("Not yet."), Step::text("All of it.\n\nTASK_COMPLETE")];
    let world = world(CODEX, Script::new(steps));
    let env = &world.env;
    env.run(["install", "codex"]).success();
    trust_in_codex(env);
    let said = in_codex(env, "$harness Write a report", &["--dangerously-bypass-hook-trust"]);
    assert!(said.trim_end().ends_with("TASK_COMPLETE"), "{said}");
    let bodies = world.model.served().bodies;
    assert_eq!(bodies.len(), 2);
    assert!(bodies[1].contains("Restart 1 of 10."), "{}", bodies[1]);
}

/// Returns scripts in which a session claims one way and completes the other way.
fn by_both_ways() -> [Script; 2] {
    let write = "echo 1 > one";
    let complete = format!("{write} && harness task complete --id task-001");
    let done = json!({ "task_id": "task-001" });
    [
        vec![tool("task_claim", json!({})), Step::shell(&complete)],
        vec![Step::shell("harness task claim"), Step::shell(write), tool("task_complete", done)],
    ]
    .map(|steps| Script::new(steps.into_iter().chain([Step::text("Done.")])))
}

fn is_completed(world: &World) {
    let ledger: Value = serde_json::from_str(&world.env.read("harness-tasks.json")).unwrap();
    let last = world.model.served().bodies.pop();
    assert_eq!(ledger["tasks"][0]["status"], "completed", "{last:?}");
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn claude_is_one_worker_in_its_shell_and_by_its_tools() {
    for script in by_both_ways() {
        let world = world(CLAUDE, script);
        world.env.run(["install", "claude"]).success();
        let allowed = ["--mcp-config", ".mcp.json", "--allowedTools", "Bash,mcp__harness"];
        let env = world.env.variable("HARNESS_HOOKS", "off");
        assert_eq!(in_claude(&env, "Do it", &allowed), "Done.");
        is_completed(&World { env, model: world.model });
    }
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn codex_is_one_worker_in_its_shell_and_by_its_tools() {
    for script in by_both_ways() {
        let world = world(CODEX, script);
        world.env.run(["install", "codex"]).success();
        trust_in_codex(&world.env);
        // In a conversation a person is asked whether a tool may be used.
        let leave = "mcp_servers.harness.default_tools_approval_mode='approve'";
        in_codex(&world.env, "Do it", &["-c", leave]);
        is_completed(&world);
    }
}

/// Its sandbox forbids sockets, both to an existing daemon and to a new one.
#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn codex_works_in_its_sandbox_with_a_daemon_outside_and_with_none() {
    for with_daemon in [true, false] {
        let work = [
            Step::shell("harness task claim"),
            Step::shell("harness task checkpoint --id task-001 --step 1 --total 2 half"),
            Step::shell("echo 1 > one && harness task complete --id task-001"),
            Step::text("Done."),
        ];
        let World { env, model } = world(CODEX, Script::new(work));
        let env = env.with_daemon();
        if with_daemon {
            env.run(["daemon", "start"]).success();
        }
        in_codex(&env, "Do it", &[]);
        is_completed(&World { env, model });
    }
}
