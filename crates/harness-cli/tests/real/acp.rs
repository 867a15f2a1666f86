//! Real agents that speak ACP: one that harness knows by name, and one that only a table names.

mod qwen {
    use crate::{
        environment::TestEnvironment,
        scenarios::Real,
        world::{configure, path_with},
    };

    const KEY: &str = "sk-qwen-of-a-test-0123456789abcdef";

    const QWEN: Real =
        Real { set_up, secret: ("OPENAI_API_KEY", KEY), price: (2e-6, 8e-6), denied: "denied" };

    const HARNESS: &str = "agent = 'qwen'
[agents.qwen]
args = ['--auth-type', 'openai', '--approval-mode', 'default']
price = { input = 2.0, output = 8.0 }
";

    /// Qwen's own settings: no requests besides the conversation.
    const SETTINGS: &str = r#"{
        "general": { "disableAutoUpdate": true },
        "memory": { "enableManagedAutoMemory": false, "enableManagedAutoDream": false },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "ui": { "enableFollowupSuggestions": false }
    }"#;

    fn set_up(env: TestEnvironment, url: &str) -> TestEnvironment {
        configure(&env, HARNESS);
        env.write(env.home().join(".qwen/settings.json"), SETTINGS);
        env.variable("PATH", path_with(&["qwen"]))
            .variable("OPENAI_BASE_URL", format!("{url}/v1"))
            .variable("OPENAI_API_KEY", KEY)
            .variable("OPENAI_MODEL", "scripted")
    }

    crate::scenarios!(QWEN:
        it_writes_a_file_and_keeps_its_promise,
        it_may_not_write_outside_of_the_work_tree,
        a_killed_harness_leaves_nothing_running_and_is_taken_up,
        an_interrupted_run_leaves_nothing_running,
        one_that_stops_early_five_times_is_sent_on,
        three_tasks_are_worked_and_one_fails_first,
        no_secret_is_in_any_file_of_ours,
    );
}

mod codex_acp {
    use crate::{
        codex::configuration,
        environment::TestEnvironment,
        scenarios::Real,
        world::{configure, path_with},
    };

    const KEY: &str = "sk-proj-of-another-test-0123456789";

    const CODEX_ACP: Real = Real {
        set_up,
        secret: ("OPENAI_API_KEY", KEY),
        price: (1.25e-6, 10e-6),
        // Its only rejection ends the turn, and the next prompt mentions that.
        denied: "it gave up because it was not allowed to",
    };

    const HARNESS: &str = "agent = 'codex-acp'
[agents.codex-acp]
kind = 'acp'
command = 'codex-acp'
model = 'gpt-5.5'
env = ['OPENAI_*', 'CODEX_*', 'INITIAL_AGENT_MODE=workspace-write']
price = { input = 1.25, output = 10.0 }
";

    fn set_up(env: TestEnvironment, url: &str) -> TestEnvironment {
        configure(&env, HARNESS);
        env.write(env.home().join(".codex/config.toml"), configuration(url));
        env.variable("PATH", path_with(&["codex-acp"])).variable("OPENAI_API_KEY", KEY)
    }

    crate::scenarios!(CODEX_ACP:
        it_writes_a_file_and_keeps_its_promise,
        it_may_not_write_outside_of_the_work_tree,
        a_limit_is_waited_for_in_the_same_iteration,
        who_is_not_let_in_burns_no_iteration,
        a_full_context_is_followed_by_a_fresh_one,
        a_stream_that_is_cut_is_taken_up,
        a_killed_harness_leaves_nothing_running_and_is_taken_up,
        an_interrupted_run_leaves_nothing_running,
        one_that_stops_early_five_times_is_sent_on,
        one_that_says_nothing_goes_on_in_its_context,
        three_tasks_are_worked_and_one_fails_first,
        no_secret_is_in_any_file_of_ours,
    );
}
