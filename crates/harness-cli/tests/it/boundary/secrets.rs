//! Values of secret variables are stored, logged and shown nowhere, whatever way they come in.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    daemon::Foreground,
    environment::TestEnvironment,
    host::{ask, connect},
};

const SECRET: &str = "sk-Quite-Secret-1";
const MARK: &str = "[redacted:MY_API_KEY]";

/// Returns the files below `folder` that contain the secret. Those of git are the user's own.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() && entry.file_name() != ".git" {
            found.extend(leaks(&path));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

fn world() -> TestEnvironment {
    TestEnvironment::of_worker().variable("MY_API_KEY", SECRET)
}

#[test]
fn x_m2_what_workers_say_and_checks_print_is_redacted() {
    for daemon in [false, true] {
        let env = world();
        let env = if daemon { env.with_daemon() } else { env };
        let words = format!("used {SECRET}");
        env.run(["add", &words, "--validate", "echo it is $MY_API_KEY", "--instructions", &words])
            .success();
        env.run(["add", "B", "--max-attempts", "1"]).success();
        env.run(["task", "claim"]).success();
        env.run(["task", "checkpoint", "--id", "task-001", "--step", "1", "--total", "2", &words])
            .success();
        env.run(["task", "complete", "--id", "task-001"]).success();
        env.run(["task", "claim"]).success();
        let failed = env.run(["task", "fail", "--id", "task-002", &words]).success();
        assert!(!format!("{failed}").contains(SECRET));
        assert_eq!(leaks(env.root()), [""; 0]);
        assert_eq!(env.task(0)["title"], format!("used {MARK}"));
        assert_eq!(env.task(0)["instructions"], format!("used {MARK}"));
        assert_eq!(env.task(0)["checkpoints"][0]["description"], format!("used {MARK}"));
        let receipt = env.read(".harness/receipts/task-001.1.json");
        assert!(receipt.contains(&format!("it is {MARK}")), "{receipt}");
    }
}

#[test]
fn x_m2_a_client_of_the_socket_gets_no_secret_past_the_host() {
    let env = world().with_daemon();
    let daemon = Foreground::start(&env, &[]);
    let mut client = connect(&env);
    let mut say = |request: Value| ask(&mut client, request.to_string());
    let task = |id: &str| json!({ "description": format!("T {id} {SECRET}") });
    let plan =
        json!({ "goal": format!("get {SECRET}"), "tasks": { "a": task("a"), "b": task("b") } });
    let content = format!("```json\n{plan}\n```");
    assert_eq!(say(json!({ "command": "plan_import", "content": content }))["status"], "ok");
    assert_eq!(say(json!({ "command": "task_claim", "worker_id": "w" }))["status"], "ok");
    let checkpoint = json!({ "command": "task_checkpoint", "task_id": "a", "worker_id": "w",
        "step": 1, "total": 2, "description": SECRET });
    assert_eq!(say(checkpoint)["status"], "ok");
    let bad = json!({ "command": "task_edit", "task_id": "b", "validate": format!("x {SECRET}") });
    let refused = say(bad);
    assert_eq!(refused["status"], "error");
    assert!(refused.to_string().contains("MY_API_KEY") && !refused.to_string().contains(SECRET));
    let fail = json!({ "command": "task_fail", "task_id": "a", "worker_id": "w",
        "message": format!("it said {SECRET}") });
    assert_eq!(say(fail)["status"], "ok");
    drop(daemon);
    assert_eq!(leaks(env.root()), [""; 0]);
    assert!(env.read("harness-tasks.json").contains(&format!("get {MARK}")));
}

#[test]
fn x_m2_a_command_line_that_holds_a_secret_is_refused() {
    let env = world();
    let before = env.read("harness-tasks.json");
    let line = format!("curl -H {SECRET} example.com");
    for flag in ["--validate", "--cleanup"] {
        env.run(["add", "A", flag, &line])
            .code(1)
            .stderr_contains("contains the value of MY_API_KEY")
            .stderr_contains("\"$MY_API_KEY\"");
    }
    let task = json!({ "description": "A", "validation": { "command": line } });
    let plan = json!({ "goal": "g", "tasks": { "a": task } });
    env.write("plan.md", format!("```json\n{plan}\n```"));
    env.run(["plan", "import", "--file", "plan.md"]).code(1).stderr_contains("MY_API_KEY");
    assert_eq!(env.read("harness-tasks.json"), before);
    fs::remove_file(env.root().join("plan.md")).unwrap();
    for flag in ["--verify", "--agent-command"] {
        env.run(["run", "do it", flag, &line]).code(2).stderr_contains("MY_API_KEY");
    }
    assert_eq!(leaks(env.root()), [""; 0]);
    env.run(["add", "A", "--validate", "curl -H $MY_API_KEY example.com"]).success();
}

#[test]
fn x_m2_a_run_keeps_no_secret_in_receipts_rows_handoffs_or_logs() {
    let env = world();
    let agent = "mkdir -p state; echo \"{\\\"phase\\\":\\\"$MY_API_KEY\\\"}\" > state/handoff.json; \
        echo $MY_API_KEY; touch work-$HARNESS_TASK_ID; \
        \"$HARNESS\" task checkpoint --step 1 --total 2 \"with $MY_API_KEY\"";
    let agent = agent.replace("$HARNESS\"", &format!("{}\"", env!("CARGO_BIN_EXE_harness")));
    let check = "echo $MY_API_KEY; test -f work-$HARNESS_TASK_ID";
    for _ in 0..2 {
        env.run(["add", "A", "--instructions", &agent, "--validate", check]).success();
    }
    env.git(["add", "-A"]);
    let ran = env.run(["run", "--agent", "shell", "--json"]).success();
    assert!(!format!("{ran}").contains(SECRET), "{ran}");
    let archived = env.read(".harness/archive/handoff-task-001-1.json");
    assert!(archived.contains(MARK), "{archived}");
    // Files that the agent itself wrote into the work tree are its own.
    fs::remove_file(env.root().join("state/handoff.json")).unwrap();
    assert_eq!(leaks(env.root()), [""; 0]);
}

#[test]
fn x_m2_questions_hold_no_secret() {
    let env = world().with_daemon();
    env.run(["daemon", "start"]).success();
    let mut asking = env.harness(["ask", &format!("May I use {SECRET}?")]).spawn().unwrap();
    let question = loop {
        let open = env.run(["questions", "--json"]).success().json();
        if let Some(question) = open["questions"].as_array().and_then(|all| all.first()) {
            break question.clone();
        }
        std::thread::yield_now();
    };
    assert_eq!(question["question"], format!("May I use {MARK}?"));
    let id = question["prompt_id"].as_str().unwrap();
    env.run(["reply", id, "yes"]).success();
    assert!(asking.wait().unwrap().success());
}

#[test]
fn the_configuration_names_further_secrets_and_exceptions() {
    let env =
        world().variable("LICENCE", "Not-A-Usual-Name").variable("PUBLIC_KEY", "pk-live-1234");
    let env = env.variable("DATABASE_URL", "postgres://me:pa55-w0rd@db/x");
    env.write("harness.toml", "[secrets]\nnames = ['LICEN*']\nexcept = ['PUBLIC_KEY']\n");
    env.run(["add", "Not-A-Usual-Name pk-live-1234 pa55-w0rd"]).success();
    assert_eq!(env.task(0)["title"], "[redacted:LICENCE] pk-live-1234 [redacted:DATABASE_URL]");
    // An untrusted repository cannot exempt a name.
    env.run(["trust", "--revoke"]).success();
    env.run(["add", "Not-A-Usual-Name pk-live-1234"]).success();
    assert_eq!(env.task(1)["title"], "[redacted:LICENCE] [redacted:PUBLIC_KEY]");
}

/// Only an editor sets a gate, so it is refused when it would run.
#[test]
fn x_m2_a_gate_that_holds_a_secret_is_not_run() {
    let ledger = |line: &str| {
        json!({
            "version": 2,
            "phases": [{ "name": "Plan", "gate": { "command": line } }, { "name": "Build" }],
            "tasks": [
                { "id": "plan", "title": "Plan it", "phase": "Plan", "status": "completed" },
                { "id": "build", "title": "Build it", "phase": "Build" },
            ],
        })
        .to_string()
    };
    let secret = ledger(&format!("echo {SECRET} >> $HOME/ran"));
    let hint = "the gate contains the value of MY_API_KEY, which must not be stored: write \"$MY_API_KEY\"";
    let env = world();
    env.write("harness-tasks.json", &secret);
    env.run(["run", "--agent", "shell"]).code(5).stderr_contains(hint);
    let env = world().with_daemon();
    env.write("harness-tasks.json", &secret);
    env.run(["task", "claim"]).code(1).stderr_contains(hint);
    assert!(!env.exists(env.home().join("ran")));
    env.write("harness-tasks.json", ledger("test -n \"$MY_API_KEY\""));
    let claimed = env.run(["task", "claim"]).success().json();
    assert_eq!(claimed["task"]["id"], "build");
    assert!(!env.read("harness-progress.txt").contains(SECRET));
}

#[test]
fn x_m2_an_edit_with_a_secret_in_a_command_line_is_refused() {
    let env = world();
    env.run(["add", "A"]).success();
    for flag in ["--validate", "--cleanup"] {
        env.run(["task", "edit", "task-001", flag, &format!("curl -H {SECRET} x")])
            .code(1)
            .stderr_contains("contains the value of MY_API_KEY");
    }
    assert_eq!(leaks(env.root()), [""; 0]);
}
