//! The real Codex.

use harness_sim::model::Script;

use crate::{
    environment::TestEnvironment,
    scenarios::Real,
    world::{configure, path_with},
};

const KEY: &str = "sk-proj-of-a-test-0123456789abcdef";

const CODEX: Real = Real {
    set_up,
    secret: ("OPENAI_API_KEY", KEY),
    // It reports no cost, so this is the price table of the configuration.
    price: (1.25e-6, 10e-6),
    denied: "writing outside of the project",
};

const HARNESS: &str = "agent = 'codex'
[agents.codex]
model = 'gpt-5.5'
price = { input = 1.25, output = 10.0 }
";

pub(crate) fn set_up(env: TestEnvironment, url: &str) -> TestEnvironment {
    configure(&env, HARNESS);
    env.write(env.home().join(".codex/config.toml"), configuration(url));
    env.variable("PATH", path_with(&["codex"])).variable("OPENAI_API_KEY", KEY)
}

/// Returns Codex's own configuration.
pub(crate) fn configuration(url: &str) -> String {
    format!(
        "model_provider = 'scripted'
check_for_update_on_startup = false
[model_providers.scripted]
name = 'Scripted'
base_url = '{url}/v1'
wire_api = 'responses'
env_key = 'OPENAI_API_KEY'
request_max_retries = 0
stream_max_retries = 1
[analytics]
enabled = false
"
    )
}

crate::scenarios!(CODEX);

#[test]
#[ignore = "needs the real agents: cargo xtask test --real-agents"]
fn doctor_misses_no_login_where_none_is_needed() {
    let world = CODEX.world(Script::default());
    let line = "ok    agent          codex: codex-cli 0.166.0, signed in by OPENAI_API_KEY";
    world.env.run(["doctor"]).stdout_contains(line);
    let env = world.env.without_variable("OPENAI_API_KEY");
    env.run(["doctor"]).stdout_contains("no sign of a login — set OPENAI_API_KEY, which its");
}
