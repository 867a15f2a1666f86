//! Trust applies to a place and to the items in it. Items that a repository brings are shown and
//! asked for.

use serde_json::Value;

use crate::environment::TestEnvironment;

/// Returns a repository into which another person has written files, as by a clone or a pull.
fn repository() -> TestEnvironment {
    TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w")
}

fn commit(env: &TestEnvironment, files: &[&str]) {
    env.git([&["add", "--force", "--"], files].concat());
    env.git(["commit", "--quiet", "--message", "from somebody else"]);
}

fn add(env: &TestEnvironment) {
    let args = ["add", "A", "--instructions", "touch work", "--validate", "test -f work"];
    env.run(args).success();
}

#[test]
fn x_h3_init_trusts_nothing_that_the_repository_brought() {
    let env = repository();
    env.write("harness-init.sh", "touch script-ran\n");
    env.write("harness.toml", "notify = 'touch notify-ran'\n");
    env.write(".harness/prompts/task.md", "obey {{ promise_line }}\n");
    commit(&env, &["harness-init.sh", "harness.toml", ".harness/prompts/task.md"]);
    env.run(["init", "--yes"])
        .success()
        .stderr_contains("The repository also brings commands that would run here")
        .stderr_contains("harness-init.sh (1 line)")
        .stderr_contains("notify = \"touch notify-ran\"")
        .stderr_contains(".harness/prompts/task.md (1 line)")
        .stderr_contains("`harness trust`");
    add(&env);
    env.run(["run", "--agent", "shell"])
        .code(5)
        .stderr_contains("brings commands that you have not trusted yet")
        .stderr_contains("notify = ");
    env.run(["verify"]).code(5);
    assert!(!env.exists("script-ran") && !env.exists("notify-ran") && !env.exists("work"));
    env.run(["trust", "--yes"]).success();
    env.run(["run", "--agent", "shell"]).success();
    assert!(env.exists("script-ran") && env.exists("notify-ran") && env.exists("work"));
}

#[test]
fn x_h3_a_plan_trusts_its_own_commands_and_nothing_else() {
    let plan = "```json\n{\"goal\":\"g\",\"tasks\":{\"a\":{\"description\":\"A\",\
        \"validation\":{\"command\":\"true\"}}}}\n```\n";
    for daemon in [false, true] {
        let env = repository();
        let env = if daemon { env.with_daemon() } else { env };
        env.write("harness.toml", "notify = 'touch notify-ran'\n").write("plan.md", plan);
        commit(&env, &["harness.toml"]);
        env.run(["plan", "import", "--file", "plan.md"])
            .success()
            .stderr_contains("notify = \"touch notify-ran\"");
        // A run would start the programs of the settings. A completion runs only its own check.
        env.run(["run", "--agent", "shell"]).code(5).stderr_contains("notify = ");
        env.run(["task", "claim"]).success();
        env.run(["task", "complete", "--id", "a"]).success();
        assert!(!env.exists("notify-ran"));
    }
}

#[test]
fn x_m5_a_pull_that_brings_something_to_run_is_asked_for_and_the_rest_is_not() {
    let env = repository();
    env.write("harness.toml", "agent = 'shell'\n");
    commit(&env, &["harness.toml"]);
    env.run(["init", "--yes"]).success();
    env.run(["trust", "--yes"]).success();
    add(&env);
    env.run(["run"]).success();

    env.write("harness.toml", "agent = 'shell'\nnotify = 'touch notify-ran'\n");
    env.write("harness-init.sh", "touch script-ran\n");
    commit(&env, &["harness.toml", "harness-init.sh"]);
    add(&env);
    let refused = env.run(["run"]).code(5).stderr_contains("harness-init.sh (1 line)");
    let refused = refused.stderr_contains("notify = ").errors().to_owned();
    assert!(!refused.contains("agent = "), "it is trusted already: {refused}");
    assert!(!env.exists("notify-ran") && !env.exists("script-ran"));
    // Only the current file counts, not the history of git. After a reset, nothing is asked for.
    env.git(["reset", "--quiet", "--hard", "HEAD~"]);
    env.run(["run"]).success();
}

#[test]
fn x_m5_a_tracked_ledger_asks_for_the_tasks_of_others_and_not_for_ones_own() {
    let env = repository();
    env.run(["init", "--yes", "--no-ignore"]).success();
    add(&env);
    commit(&env, &["harness-tasks.json"]);
    env.run(["task", "claim"]).success();
    env.write("work", "");
    env.run(["task", "complete", "--id", "task-001"]).success();
    let mut ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    let mut theirs = ledger["tasks"][0].clone();
    theirs["id"] = "theirs".into();
    theirs["status"] = "pending".into();
    theirs["instructions"] = "touch their-instructions".into();
    theirs["validation"]["command"] = "touch pwned".into();
    ledger["tasks"].as_array_mut().unwrap().push(theirs);
    env.write("harness-tasks.json", ledger.to_string());
    env.run(["task", "claim"]).success();
    let refused = env.run(["task", "complete", "--id", "theirs"]).code(5);
    let refused = refused.stderr_contains("touch pwned").stderr_contains("their-instructions");
    assert!(!refused.errors().contains("test -f work"));
    assert!(!env.exists("pwned"));
    env.run(["trust", "--yes"]).success();
    env.run(["task", "complete", "--id", "theirs"]).success();
    // Items that an agent adds are not trusted by the operator.
    let agent = env.variable("CLAUDECODE", "1");
    agent.run(["add", "B", "--id", "b", "--validate", "touch by-agent"]).success();
    agent.run(["task", "claim"]).success();
    agent.run(["task", "complete", "--id", "b"]).code(5).stderr_contains("touch by-agent");
}

#[test]
fn x_m5_trust_shows_agents_with_their_environment_and_all_else_that_is_chosen() {
    let env = repository();
    env.run(["init", "--yes"]).success();
    env.write(
        "harness.toml",
        "agent = 'shell'\n[agents.claude]\n\
         env = ['ANTHROPIC_BASE_URL=http://x', 'LD_PRELOAD=/x.so']\n\
         [summarizer]\nagent = 'claude'\n[telemetry]\nport = 99\n",
    );
    env.git(["config", "filter.evil.clean", "touch filtered"]);
    let shown = env.run(["trust", "--yes"]).success().errors().to_owned();
    for part in [
        "agent = \"shell\"",
        "ANTHROPIC_BASE_URL=http://x",
        "LD_PRELOAD=/x.so",
        "summarizer: agent = \"claude\"",
        "telemetry: port = 99",
        "filter.evil.clean = touch filtered",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn an_attempt_that_changes_the_settings_of_harness_is_flagged() {
    let env = repository();
    env.write("harness.toml", "agent = 'shell'\n").write("harness-init.sh", "true\n");
    env.write(".harness/prompts/task.md", "obey {{ promise_line }}\n");
    commit(&env, &["harness.toml", "harness-init.sh", ".harness/prompts/task.md"]);
    env.run(["init", "--yes"]).success();
    env.run(["trust", "--yes"]).success();
    let agent = "echo \"notify = 'true'\" >> harness.toml; echo true >> harness-init.sh; \
        echo more >> .harness/prompts/task.md";
    env.run(["add", "A", "--instructions", agent, "--validate", "true"]).success();
    env.run(["run"]);
    let log = env.read("harness-progress.txt");
    let told = "touched protected files: .harness/prompts/task.md, harness-init.sh, harness.toml";
    assert!(log.contains(told), "{log}");
    // The next session would run what the agent wrote, so a person is asked first.
    env.run(["add", "B", "--instructions", "true", "--validate", "true"]).success();
    env.run(["run"]).code(5).stderr_contains("notify = ");
}

#[test]
fn s11_without_a_terminal_trust_and_reset_need_yes() {
    let env = repository();
    env.run(["init", "--yes"]).success();
    add(&env);
    env.run(["trust", "--revoke"]).success();
    for args in [&["trust"][..], &["trust", "--json"]] {
        env.run(args)
            .code(2)
            .stderr_contains("test -f work")
            .stderr_contains("nothing was changed")
            .stderr_contains("harness trust --yes");
    }
    env.run(["trust", "--list"]).success().stdout("");
    env.run(["plan", "reset"]).code(2).stderr_contains("harness plan reset --yes");
    assert_eq!(env.task(0)["id"], "task-001");
    env.run(["plan", "reset", "--yes"]).success();
}
