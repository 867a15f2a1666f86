//! `harness run` with programs that use the protocols of the real agents.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::environment::TestEnvironment;

/// Speaks as Codex does. The first context fails or ends without the promise, as `first` says.
const CODEX: &str = r#"#!/bin/sh
grep -q hello.txt || exit 9
echo '{"type":"thread.started","thread_id":"thread-1"}'
if [ "$HARNESS_ITERATION" = 0 ] && [ ! -e "$HOME/tried" ]; then
    touch "$HOME/tried"
    FIRST
fi
echo '{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"sh","status":"in_progress"}}'
echo hello > hello.txt
echo '{"type":"item.completed","item":{"id":"item_0","type":"command_execution","command":"sh","exit_code":0,"status":"completed"}}'
echo '{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"TASK_COMPLETE"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":2000000,"output_tokens":100000}}'
"#;

/// Speaks as an ACP agent does.
const ACP: &str = r#"#!/bin/sh
answer() { read -r line; echo "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"; }
answer 1 '{"protocolVersion":1}'
answer 2 '{"sessionId":"s-1"}'
read -r line
echo hello > hello.txt
echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"TASK_COMPLETE"}}}}'
echo '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn","usage":{"inputTokens":20,"outputTokens":5}}}'
"#;

fn world(name: &str, text: &str) -> TestEnvironment {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    let bin = env.home().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let program = bin.join(name);
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)));
    let env = env.variable("PATH", path.unwrap());
    env.run(["init"]).success();
    let check = "test \"$(cat hello.txt)\" = hello";
    let instructions = "Write hello into hello.txt";
    env.run(["add", "Greet", "--instructions", instructions, "--validate", check]).success();
    env
}

fn attempt(env: &TestEnvironment) -> Value {
    let listed = env.run(["runs", "list", "--all", "--json"]).success().json();
    let runs = listed["runs"].as_array().unwrap().clone();
    runs.into_iter().find(|run| !run["task_id"].is_null()).unwrap()
}

#[test]
fn codex_works_a_task_and_its_tokens_are_priced() {
    let env = world("codex", &CODEX.replace("FIRST", ":"));
    env.write("harness.toml", "[agents.codex]\nprice = { input = 1.0, output = 10.0 }\n");
    let ended = env.run(["run", "--agent", "codex", "--json"]).success().json();
    assert_eq!(ended["counts"]["completed"], 1);
    assert_eq!(env.read("hello.txt"), "hello\n");
    let run = attempt(&env);
    assert_eq!((&run["input_tokens"], &run["output_tokens"]), (&2000000.into(), &100000.into()));
    assert_eq!(run["cost_usd"], 3.0);
    assert_eq!(run["iteration_count"], 0);
}

#[test]
fn codex_that_is_not_signed_in_uses_up_no_iteration() {
    let failed = r#"echo '{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no"}}'; exit 1"#;
    let env = world("codex", &CODEX.replace("FIRST", failed));
    env.run(["run", "--agent", "codex"]).code(1).stderr_contains("401 Unauthorized");
    assert_eq!(attempt(&env)["iteration_count"], 0);
    // After a sign-in, the same attempt goes on.
    let ended = env.run(["run", "--agent", "codex", "--json"]).success().json();
    assert_eq!(ended["counts"]["completed"], 1);
}

#[test]
fn codex_that_loses_its_model_is_started_again() {
    let failed =
        r#"echo '{"type":"turn.failed","error":{"message":"stream disconnected"}}'; exit 1"#;
    let env = world("codex", &CODEX.replace("FIRST", failed));
    let ended = env.run(["run", "--agent", "codex", "--json"]).success().json();
    assert_eq!(ended["counts"]["completed"], 1);
    assert_eq!(attempt(&env)["iteration_count"], 1);
}

#[test]
fn an_agent_that_speaks_acp_works_a_task() {
    for (name, table) in
        [("gemini", ""), ("mine", "[agents.mine]\nkind = 'acp'\ncommand = 'mine --acp'\n")]
    {
        let env = world(name, ACP);
        env.write("harness.toml", table);
        let ended = env.run(["run", "--agent", name, "--json"]).success().json();
        assert_eq!(ended["counts"]["completed"], 1, "{name}");
        let run = attempt(&env);
        assert_eq!((&run["input_tokens"], &run["output_tokens"]), (&20.into(), &5.into()));
    }
}

/// Returns the input that the program received at its start, in the way of its kind.
fn start_input(agent: &str, text: &str, config: &str) -> String {
    let env = world(agent, text);
    env.write("harness.toml", config);
    env.run(["run", "--agent", agent]).success();
    std::fs::read_to_string(env.home().join("told")).unwrap()
}

#[test]
fn agents_are_given_the_tools_of_this_very_program() {
    let words = r#"#!/bin/sh
printf '%s\n' "$@" > "$HOME/told""#;
    let codex = CODEX.replace("FIRST", ":").replacen("#!/bin/sh", words, 1);
    let lines = r#"read -r line; printf '%s\n' "$line" >> "$HOME/told"; echo"#;
    let acp = ACP.replacen("read -r line; echo", lines, 1);
    let program = env!("CARGO_BIN_EXE_harness");
    let task = |text: &str| text.contains("HARNESS_TASK_ID") && text.contains("task-001");
    for (agent, text, starts) in [
        ("codex", &codex, format!("mcp_servers.harness.command=\"{program}\"")),
        (
            "gemini",
            &acp,
            format!("\"mcpServers\":[{{\"name\":\"harness\",\"command\":\"{program}\""),
        ),
    ] {
        let given = start_input(agent, text, "");
        assert!(given.contains(&starts) && task(&given), "{given}");
        let off = start_input(agent, text, &format!("[agents.{agent}]\nmcp = false\n"));
        assert!(!off.contains(program), "{off}");
    }
}
