//! The real Claude Code.

use std::path::Path;

use harness_sim::model::{Call, Say, Script, Step, Tokens};

use crate::{
    environment::TestEnvironment,
    world::{World, eventually, files_with, path_with, processes_with},
};

const KEY: &str = "sk-ant-of-a-test-0123456789abcdef";
const MODEL: &str = "claude-opus-5-5";
/// What this version of Claude Code counts for a token of that model, in and out.
const PRICE: (f64, f64) = (4e-6, 20e-6);

pub(crate) fn set_up(env: TestEnvironment, url: &str) -> TestEnvironment {
    env.write("harness.toml", format!("agent = 'claude'\n[agents.claude]\nmodel = '{MODEL}'\n"));
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "configuration"]);
    env.variable("PATH", path_with("claude"))
        .variable("ANTHROPIC_BASE_URL", url)
        .variable("ANTHROPIC_API_KEY", KEY)
        .variable("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .variable("CLAUDE_CODE_MAX_RETRIES", "1")
        .variable("DISABLE_AUTOUPDATER", "1")
        .variable("DISABLE_TELEMETRY", "1")
        .variable("DISABLE_ERROR_REPORTING", "1")
}

fn world(script: Script) -> World {
    World::new(|_| script, set_up)
}

/// In the words of the configuration, beside the model.
fn with_arguments(script: Script, args: &str) -> World {
    let world = world(script);
    let config = world.env.read("harness.toml");
    world.env.write("harness.toml", format!("{config}args = {args}\n"));
    world.env.git(["commit", "--quiet", "--all", "--message", "arguments"]);
    world
}

fn done() -> Step {
    Step::text("All is done. TASK_COMPLETE")
}

fn assert_cost(world: &World) {
    let total = world.tokens_agree();
    let served = world.model.served();
    let (input, output) = (served.input_tokens as f64, served.output_tokens as f64);
    let expected = input * PRICE.0 + output * PRICE.1;
    let cost = total["cost_usd"].as_f64().unwrap();
    assert!((cost - expected).abs() < 1e-9, "{cost} is not {expected}");
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn it_writes_a_file_and_keeps_its_promise() {
    let write = |path: &Path, content: &str| {
        let (path, content) = (path.display().to_string(), content.to_owned());
        Step::call(Call::Write { path, content })
    };
    let script = |root: &Path| {
        let outside = root.parent().unwrap().join("outside.txt");
        Script::new([write(&root.join("hello.txt"), "hello\n"), write(&outside, "no"), done()])
    };
    let world = World::new(script, set_up);
    world.env.run(["run", "Write hello.txt"]).success();
    assert_eq!(world.env.read("hello.txt"), "hello\n");
    assert!(!world.env.root().parent().unwrap().join("outside.txt").exists());
    let row = world.run_row();
    assert_eq!((&row["iteration_count"], &row["stop_reason"]), (&0.into(), &"complete".into()));
    assert!(row["provider_session_id"].is_string(), "{row}");
    assert_cost(&world);
    // What it asked for beyond the work tree was not allowed.
    let bodies = world.model.served().bodies;
    assert!(bodies[2].contains("Write is not allowed here"), "{}", bodies[2]);
}

fn limit() -> Step {
    let headers = vec![("retry-after", "1".to_owned())];
    Step::Status { status: 429, message: "too fast".into(), headers }
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_limit_is_waited_for_in_the_same_iteration() {
    let world = world(Script::new([limit(), limit(), done()]));
    let mut harness = world.start(&["run", "Do it"]);
    eventually("it waits", || world.run_row()["wake_at"].is_string());
    // Nobody wants to wait as long as it would.
    world.env.run(["kick"]).success();
    assert!(harness.wait().unwrap().success());
    let row = world.run_row();
    assert_eq!((&row["stop_reason"], &row["iteration_count"]), (&"complete".into(), &0.into()));
    assert_cost(&world);
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_limit_stops_a_run_that_does_not_wait() {
    // The first is overcome by Claude Code itself, which tries once more.
    let steps = [limit(), Step::shell("echo 1 > one"), limit(), limit(), done()];
    let world = world(Script::new(steps));
    world.env.run(["run", "Do it", "--no-wait"]).code(3).stderr_contains("limit");
    let row = world.run_row();
    assert_eq!((&row["stop_reason"], &row["iteration_count"]), (&"limit".into(), &0.into()));
    world.env.run(["run", "--resume"]).success();
    let row = world.run_row();
    assert_eq!((&row["stop_reason"], &row["iteration_count"]), (&"complete".into(), &0.into()));
    assert_cost(&world);
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn who_is_not_let_in_burns_no_iteration() {
    let no = || Step::status(401, "invalid x-api-key");
    let world = world(Script::new([no(), no(), done()]));
    world.env.run(["run", "Do it"]).code(1).stderr_contains("not let in");
    let row = world.run_row();
    assert_eq!((&row["stop_reason"], &row["iteration_count"]), (&"env_setup".into(), &0.into()));
    world.env.run(["run", "--resume"]).success();
    assert_eq!(world.run_row()["iteration_count"], 0);
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_full_context_is_followed_by_a_fresh_one() {
    let full = Step::status(400, "prompt is too long: 250000 tokens > 200000 maximum");
    let script = Script::new([Step::shell("echo 1 > one"), full])
        .when("Iteration 1 of", [done()])
        .repeating();
    let world = world(script);
    world.env.run(["run", "Do it"]).success();
    let row = world.run_row();
    assert_eq!((&row["stop_reason"], &row["iteration_count"]), (&"complete".into(), &1.into()));
    let id = row["run_id"].as_str().unwrap().to_owned();
    let shown = world.env.run(["runs", "show", &id, "--json"]).success().json();
    assert_eq!(shown["iterations"][0]["outcome"], "out_of_context", "{shown}");
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_stream_that_is_cut_is_taken_up() {
    let world = world(Script::new([Step::cut("I beg"), Step::shell("echo 1 > one"), done()]));
    world.env.run(["run", "Do it"]).success();
    assert_eq!(world.run_row()["iteration_count"], 0);
    assert_eq!(world.env.read("one"), "1\n");
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_model_that_is_never_reached_is_given_up_after_three_contexts() {
    let script = Script::new([Step::cut("I beg")]).repeating();
    let world = world(script);
    world.env.run(["run", "Do it"]).code(1).stderr_contains("3 times in a row");
    let row = world.run_row();
    assert_eq!((&row["stop_reason"], &row["iteration_count"]), (&"crashed".into(), &2.into()));
}

/// The words of a turn that was cut short are no promise.
#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_turn_that_is_cut_short_keeps_no_promise() {
    let both = Step::Say(Say {
        text: "TASK_COMPLETE".into(),
        calls: vec![Call::Shell("echo 1 > one".into())],
        ..Say::default()
    });
    let world = with_arguments(Script::new([both, done()]), "['--max-turns', '1']");
    world.env.run(["run", "Do it"]).success();
    let row = world.run_row();
    assert_eq!((&row["stop_reason"], &row["iteration_count"]), (&"complete".into(), &1.into()));
    let id = row["run_id"].as_str().unwrap().to_owned();
    let shown = world.env.run(["runs", "show", &id, "--json"]).success().json();
    assert_eq!(shown["iterations"][0]["outcome"], "cut_short", "{shown}");
    assert_cost(&world);
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_budget_is_kept_to() {
    let tokens = Tokens { input: 500_000, cached: 0, output: 50 };
    let dear = Step::Say(Say {
        calls: vec![Call::Shell("echo 1 > one".into())],
        tokens,
        ..Say::default()
    });
    let world = world(Script::new([dear, done()]));
    world.env.run(["run", "Do it", "--max-cost", "0.50"]).code(3).stderr_contains("budget");
    assert_eq!(world.run_row()["stop_reason"], "budget");
    assert_cost(&world);
    world.env.run(["run", "--resume", "--max-cost", "9"]).success();
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_killed_harness_leaves_nothing_running_and_is_taken_up() {
    let world = world(Script::new([Step::shell("echo 1 > one"), Step::Hang, done()]));
    let mut harness = world.start(&["run", "Do it"]);
    assert!(world.model.has_played(2, crate::world::LONG), "it never asked twice");
    let id = world.run_row()["run_id"].as_str().unwrap().to_owned();
    let of_it = format!("HARNESS_RUN_ID={id}");
    assert!(!processes_with(&of_it).is_empty(), "it does not run");
    harness.kill().unwrap();
    harness.wait().unwrap();
    eventually("nothing is left", || processes_with(&of_it).is_empty());
    world.env.run(["run", "--resume"]).success();
    let row = world.run_row();
    assert_eq!((&row["stop_reason"], &row["iteration_count"]), (&"complete".into(), &0.into()));
    assert_eq!(world.env.read("one"), "1\n");
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn one_that_stops_early_five_times_is_sent_on() {
    let early = |n: u32| [Step::shell(&format!("echo {n} >> many")), Step::text("That is enough.")];
    let world = world(Script::new((0..5).flat_map(early).chain([done()])));
    world.env.run(["run", "Do it"]).success();
    let row = world.run_row();
    assert_eq!((&row["stop_reason"], &row["iteration_count"]), (&"complete".into(), &5.into()));
    assert_eq!(world.env.read("many"), "0\n1\n2\n3\n4\n");
    assert_cost(&world);
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn three_tasks_are_worked_and_one_fails_first() {
    let write = |command: &str| [Step::shell(command), done()];
    let script = Script::default()
        .when("Write the file one", write("echo 1 > one"))
        .when("Write the file two", [write("echo wrong > two"), write("echo 2 > two")].concat())
        .when("Write the file three", write("echo 3 > three"));
    let world = world(script);
    for (title, check) in [("one", "grep 1 one"), ("two", "grep 2 two"), ("three", "grep 3 three")]
    {
        let told = format!("Write the file {title}");
        world.env.run(["add", title, "--instructions", &told, "--validate", check]).success();
    }
    world.env.run(["run"]).success();
    let subjects = world.env.git(["log", "--format=%s", "-3"]);
    assert_eq!(subjects.trim(), "task-002: two\ntask-003: three\ntask-001: one");
    let ledger: serde_json::Value =
        serde_json::from_str(&world.env.read("harness-tasks.json")).unwrap();
    let attempts: Vec<_> =
        ledger["tasks"].as_array().unwrap().iter().map(|task| &task["attempts"]).collect();
    assert_eq!(attempts, [1, 2, 1]);
    assert_cost(&world);
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn no_secret_is_in_any_file_of_ours() {
    let other = "another-secret-0123456789";
    let script = Script::new([
        Step::shell("env; echo the key is $ANTHROPIC_API_KEY"),
        Step::text(&format!("The key is {KEY}.")),
        done(),
    ]);
    let world =
        World::new(|_| script, |env, url| set_up(env, url).variable("DATABASE_PASSWORD", other));
    world.env.run(["run", "Do it"]).success();
    let transcripts = world.env.root().join(".harness/transcripts");
    let mut found = Vec::new();
    files_with(&transcripts, b"[redacted:ANTHROPIC_API_KEY]", &mut found);
    assert!(!found.is_empty(), "it was never said");
    found.clear();
    for secret in [KEY, other] {
        files_with(world.env.root(), secret.as_bytes(), &mut found);
    }
    assert!(found.is_empty(), "{found:?}");
    assert!(world.model.served().bodies.iter().all(|body| !body.contains(other)));
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn one_whose_context_fills_up_hands_over() {
    let handoff = r#"{"phase":"build","completed":["one"],"next_step":"write two"}"#;
    let nearly_full = Step::Say(Say {
        calls: vec![Call::Shell("echo 1 > one".into())],
        tokens: Tokens { input: 1000, cached: 160_000, output: 50 },
        ..Say::default()
    });
    let write = format!("mkdir -p state; echo '{handoff}' > state/handoff.json");
    let script = Script::new([nearly_full, Step::shell(&write), Step::text("Handed over.")])
        .when("Iteration 1 of", [done()]);
    let world = world(script);
    let config = world.env.read("harness.toml");
    world.env.write("harness.toml", format!("{config}context_window = 200000\n"));
    world.env.run(["run", "Do it"]).success();
    let row = world.run_row();
    assert_eq!((&row["stop_reason"], &row["iteration_count"]), (&"complete".into(), &1.into()));
    let bodies = world.model.served().bodies;
    let asked = |body: &String| body.contains("Your context is nearly full");
    assert!(!asked(&bodies[0]) && bodies[1..3].iter().any(asked), "it was not asked");
    assert!(
        bodies.last().is_some_and(|body| body.contains("write two")),
        "nothing was handed over"
    );
}
