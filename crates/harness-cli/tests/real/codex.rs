//! The real Codex.

use crate::{environment::TestEnvironment, scenarios::Real, world::path_with};

const KEY: &str = "sk-proj-of-a-test-0123456789abcdef";

const CODEX: Real = Real {
    set_up,
    secret: ("OPENAI_API_KEY", KEY),
    // It tells no money: this is the price table of the configuration.
    price: (1.25e-6, 10e-6),
    denied: "writing outside of the project",
};

const HARNESS: &str = "agent = 'codex'
[agents.codex]
model = 'gpt-5.5'
price = { input = 1.25, output = 10.0 }
";

pub(crate) fn set_up(env: TestEnvironment, url: &str) -> TestEnvironment {
    env.write("harness.toml", HARNESS);
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "configuration"]);
    env.write(env.home().join(".codex/config.toml"), configuration(url));
    env.variable("PATH", path_with("codex")).variable("OPENAI_API_KEY", KEY)
}

/// Of Codex's own.
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

crate::scenarios!(CODEX:
    it_writes_a_file_and_keeps_its_promise,
    it_may_not_write_outside_of_the_work_tree,
    a_limit_is_waited_for_in_the_same_iteration,
    a_limit_stops_a_run_that_does_not_wait,
    who_is_not_let_in_burns_no_iteration,
    a_full_context_is_followed_by_a_fresh_one,
    a_stream_that_is_cut_is_taken_up,
    a_model_that_is_never_reached_is_given_up_after_three_contexts,
    a_killed_harness_leaves_nothing_running_and_is_taken_up,
    an_interrupted_run_leaves_nothing_running,
    one_that_stops_early_five_times_is_sent_on,
    one_that_says_nothing_goes_on_in_its_context,
    three_tasks_are_worked_and_one_fails_first,
    no_secret_is_in_any_file_of_ours,
);
