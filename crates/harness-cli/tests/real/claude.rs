//! The real Claude Code.

use harness_sim::model::{Call, Say, Script, Step, Tokens};

use crate::{
    environment::TestEnvironment,
    scenarios::{Real, assert_ended, done, first_outcome, limit},
    world::{World, configure, path_with},
};

pub(crate) const KEY: &str = "sk-ant-of-a-test-0123456789abcdef";
const HARNESS: &str = "agent = 'claude'
[agents.claude]
model = 'claude-opus-5-5'
";

const CLAUDE: Real = Real {
    set_up,
    secret: ("ANTHROPIC_API_KEY", KEY),
    // The price that this version of Claude Code computes for that model.
    price: (4e-6, 20e-6),
    denied: "Write is not allowed here",
};

pub(crate) fn set_up(env: TestEnvironment, url: &str) -> TestEnvironment {
    configure(&env, HARNESS);
    env.variable("PATH", path_with(&["claude"]))
        .variable("ANTHROPIC_BASE_URL", url)
        .variable("ANTHROPIC_API_KEY", KEY)
        .variable("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .variable("CLAUDE_CODE_MAX_RETRIES", "1")
        .variable("DISABLE_AUTOUPDATER", "1")
        .variable("DISABLE_TELEMETRY", "1")
        .variable("DISABLE_ERROR_REPORTING", "1")
}

crate::scenarios!(CLAUDE);

/// Adds these settings to the configuration, beside the model.
fn with_settings(script: Script, settings: &str) -> World {
    let world = CLAUDE.world(script);
    let config = world.env.read("harness.toml");
    configure(&world.env, &format!("{config}{settings}\n"));
    world.env.run(["trust", "--yes"]).success();
    world
}

fn calling(call: &str, tokens: Tokens) -> Step {
    Step::Say(Say { calls: vec![Call::Shell(call.into())], tokens, ..Say::default() })
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn what_was_used_before_a_limit_is_counted() {
    let steps = [Step::shell("echo 1 > one"), limit(), limit(), done()];
    let world = CLAUDE.world(Script::new(steps));
    world.env.run(["run", "Do it", "--no-wait"]).code(3);
    world.env.run(["run", "--resume"]).success();
    CLAUDE.assert_cost(&world);
}

/// The text of a turn that was cut short is no promise.
#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_turn_that_is_cut_short_keeps_no_promise() {
    let both = Step::Say(Say {
        text: "TASK_COMPLETE".into(),
        calls: vec![Call::Shell("echo 1 > one".into())],
        ..Say::default()
    });
    let world = with_settings(Script::new([both, done()]), "args = ['--max-turns', '1']");
    world.env.run(["run", "Do it"]).success();
    assert_ended(&world, "complete", 1);
    assert_eq!(first_outcome(&world), "cut_short");
    CLAUDE.assert_cost(&world);
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn a_budget_is_kept_to() {
    let dear = calling("echo 1 > one", Tokens { input: 500_000, cached: 0, output: 50 });
    let world = CLAUDE.world(Script::new([dear, done()]));
    world.env.run(["run", "Do it", "--max-cost", "0.50"]).code(3).stderr_contains("budget");
    assert_eq!(world.run_row()["stop_reason"], "budget");
    CLAUDE.assert_cost(&world);
    world.env.run(["run", "--resume", "--max-cost", "9"]).success();
}

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn one_whose_context_fills_up_hands_over() {
    let handoff = r#"{"phase":"build","completed":["one"],"next_step":"write two"}"#;
    let tokens = Tokens { input: 1000, cached: 160_000, output: 50 };
    let nearly_full = calling("echo 1 > one", tokens);
    let write = format!("mkdir -p state; echo '{handoff}' > state/handoff.json");
    let script = Script::new([nearly_full, Step::shell(&write), Step::text("Handed over.")])
        .when("Iteration 1 of", [done()]);
    let world = with_settings(script, "context_window = 200000");
    world.env.run(["run", "Do it"]).success();
    assert_ended(&world, "complete", 1);
    let bodies = world.model.served().bodies;
    let asked = |body: &String| body.contains("Your context is nearly full");
    assert!(!asked(&bodies[0]) && bodies[1..3].iter().any(asked), "it was not asked");
    assert!(
        bodies.last().is_some_and(|body| body.contains("write two")),
        "nothing was handed over"
    );
}
