//! `harness config`

use insta::assert_snapshot;

use crate::environment::TestEnvironment;

fn user_file(env: &TestEnvironment) -> std::path::PathBuf {
    env.home().join(".config/harness/config.toml")
}

#[test]
fn every_value_is_shown_with_where_it_came_from() {
    let env = TestEnvironment::new()
        .variable("HARNESS_LIMITS_MAX_DURATION", "90m")
        .variable("HARNESS_PROTECTED", "tests/**, ci")
        .variable("HARNESS_ACP_PORT", "9200");
    env.write(user_file(&env), "agent = 'mine'\n[agents.mine]\ncommand = 'my-agent --fast'\n");
    env.write(
        "harness.toml",
        "stall_limit = 0\n\n[agents.mine]\nprice = {input = 1, output = 2.5}\n",
    );
    assert_snapshot!(env.run(["config"]).success().output(), @r#"
    agent                     "mine"                                               [HOME]/.config/harness/config.toml:1
    require_validation        false                                                built in
    promise_match             "line"                                               built in
    stall_limit               0                                                    [ROOT]/harness.toml:1
    stall_seconds             900                                                  built in
    context_threshold         0.75                                                 built in
    protected                 ["tests/**","ci"]                                    HARNESS_PROTECTED
    protect                   "flag"                                               built in
    notify                    -                                                    built in
    limits.max_iterations     10                                                   built in
    limits.max_cost           -                                                    built in
    limits.max_tokens         -                                                    built in
    limits.max_duration       "1h30m"                                              HARNESS_LIMITS_MAX_DURATION
    validation.command        -                                                    built in
    validation.clean          false                                                built in
    validation.baseline       false                                                built in
    validation.link           []                                                   built in
    validation.copy           []                                                   built in
    git.mark                  true                                                 built in
    git.hooks                 false                                                built in
    git.sign                  false                                                built in
    tasks.agents_may_add      true                                                 built in
    keep.rescue_days          30                                                   built in
    keep.transcript_days      30                                                   built in
    keep.transcript_mb        500                                                  built in
    parallel.worktrees        -                                                    built in
    parallel.fresh            false                                                built in
    parallel.copy             [".env*",".claude/settings.local.json",".mcp.json"]  built in
    parallel.link             []                                                   built in
    parallel.land             "rebase"                                             built in
    parallel.line             8                                                    built in
    parallel.pr               -                                                    built in
    parallel.target           -                                                    built in
    fleet.remote              -                                                    built in
    fleet.target              -                                                    built in
    fleet.backup_minutes      10                                                   built in
    fleet.share_rescue        true                                                 built in
    store.url                 -                                                    built in
    store.ledger              -                                                    built in
    store.password_command    -                                                    built in
    import.sync               false                                                built in
    agents.mine.command       "my-agent --fast"                                    [HOME]/.config/harness/config.toml:3
    agents.mine.price.input   1.0                                                  [ROOT]/harness.toml:4
    agents.mine.price.output  2.5                                                  [ROOT]/harness.toml:4
    summarizer.agent          -                                                    built in
    telemetry.port            9200                                                 HARNESS_ACP_PORT
    telemetry.daemon          true                                                 built in
    telemetry.run             false                                                built in
    otel.endpoint             -                                                    built in
    secrets.names             []                                                   built in
    secrets.except            []                                                   built in
    "#);
}

#[test]
fn programs_get_a_document() {
    let env = TestEnvironment::new();
    env.write("harness.toml", "[limits]\nmax_cost = 5\n");
    assert_snapshot!(env.run(["config", "--json", "limits.max_cost"]).success().output(), @r#"{"version":1,"values":{"limits.max_cost":{"value":5.0,"origin":{"layer":"project","file":"[ROOT]/harness.toml","line":2}}}}"#);
    let all = env.run(["config", "--json"]).success().json();
    assert_eq!(all["values"]["telemetry.port"]["value"], 9100);
}

#[test]
fn mistakes_are_exit_5_with_file_line_and_key() {
    let env = TestEnvironment::new();
    env.write("harness.toml", "[limits]\nmax_iteration = 3\n");
    assert_snapshot!(env.run(["config"]).code(5).errors(), @r"
    Error: [ROOT]/harness.toml:2: unknown key `limits.max_iteration`
    Hint: did you mean `limits.max_iterations`?
    ");
    env.write("harness.toml", "[limits]\nmax_duration = 90\n");
    assert_snapshot!(env.run(["config"]).code(5).errors(), @r#"Error: [ROOT]/harness.toml:2: `limits.max_duration`: invalid type: integer `90`, expected a duration such as "90s", "30m", "8h" or "2d""#);
    env.write("harness.toml", "agent = 'cluade'\n");
    assert_snapshot!(env.run(["config"]).code(5).errors(), @r#"
    Error: [ROOT]/harness.toml:1: `agent`: unknown agent "cluade"
    Hint: built-in agents: claude, codex, gemini, opencode, qwen, copilot, command, shell
    "#);
    env.write("harness.toml", "");
    let env = env.variable("HARNESS_REQUIRE_VALIDATION", "maybe");
    assert_snapshot!(env.run(["config"]).code(5).errors(), @r#"Error: the variable HARNESS_REQUIRE_VALIDATION: invalid type: string "maybe", expected true or false"#);
}

#[test]
fn other_variables_of_the_harness_are_left_alone() {
    let env =
        TestEnvironment::new().variable("HARNESS_TASK_ID", "x").variable("HARNESS_EPOCH", "1");
    env.run(["config"]).success();
}

#[test]
fn a_key_that_does_not_exist_is_not_shown_as_nothing() {
    let env = TestEnvironment::new();
    assert_snapshot!(env.run(["config", "max_cost"]).code(1).errors(), @r"
    Error: there is no key `max_cost` in the configuration
    Hint: did you mean `limits.max_cost`?
    ");
    env.run(["config", "agents"]).success().stdout("");
}

#[test]
fn the_schema_knows_every_key() {
    let env = TestEnvironment::new();
    let schema = env.run(["config", "--schema"]).success().json();
    assert_eq!(schema["title"], "harness.toml");
    assert_eq!(schema["additionalProperties"], false);
    for (key, _) in env.run(["config", "--json"]).json()["values"].as_object().unwrap() {
        let first = key.split('.').next().unwrap();
        assert!(schema["properties"].get(first).is_some(), "{key}");
    }
}

#[test]
fn the_files_are_named_and_the_root_is_found_from_below() {
    let env = TestEnvironment::with_git();
    env.write("deep/down/file", "");
    assert_snapshot!(env.run_in("deep/down", ["config", "--path"]).success().output(), @r"
    [HOME]/.config/harness/config.toml
    [ROOT]/harness.toml
    ");
}

#[test]
fn without_a_home_the_project_still_counts() {
    let env = TestEnvironment::new().without_variable("HOME").without_variable("XDG_CONFIG_HOME");
    env.write("harness.toml", "stall_limit = 7\n");
    env.run(["config", "stall_limit"]).success().stdout("stall_limit  7  [ROOT]/harness.toml:1");
}
