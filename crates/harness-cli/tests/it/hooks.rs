//! Hooks as an agent calls them: JSON in, text and exit code out.

use serde_json::{Value, json};

use crate::environment::{Ran, TestEnvironment};

pub(crate) fn task(id: &str, status: &str, by: Option<&str>) -> Value {
    json!({ "id": id, "title": format!("Title {id}"), "status": status, "claimed_by": by })
}

pub(crate) fn world(mode: &str, tasks: &[Value]) -> TestEnvironment {
    let env = TestEnvironment::new();
    let config = json!({ "concurrency_mode": mode });
    let ledger = json!({ "version": 2, "session_config": config, "tasks": tasks });
    env.write("harness-tasks.json", ledger.to_string()).write(".harness-active", "");
    env
}

pub(crate) fn call(env: &TestEnvironment, hook: &str, payload: &Value) -> Ran {
    env.run_with_input(&payload.to_string(), ["hook", hook])
}

#[track_caller]
pub(crate) fn blocked(ran: Ran, words: &[&str]) {
    let ran = ran.code(0);
    assert_eq!(ran.json()["decision"], "block");
    let reason = ran.json()["reason"].as_str().unwrap().to_owned();
    assert!(words.iter().all(|word| reason.contains(word)), "{words:?} in {reason}");
}

#[track_caller]
pub(crate) fn silent(ran: Ran) {
    ran.code(0).stdout("").stderr("");
}

#[test]
fn stop_blocks_while_work_is_left_and_then_lets_go() {
    let env = world("exclusive", &[task("a", "completed", None), task("b", "pending", None)]);
    blocked(
        call(&env, "stop", &json!({})),
        &["HARNESS: completed=1 pending=1 total=2 next=b: Title b\n"],
    );
    assert_eq!(env.read(".harness-stop-counter"), "1,1");
    let done = json!({ "version": 2, "tasks": [task("a", "completed", None)] });
    env.write("harness-tasks.json", done.to_string());
    silent(call(&env, "stop", &json!({})));
    assert!(env.exists(".harness-reflect"));
    assert!(!env.exists(".harness-active") && !env.exists(".harness-stop-counter"));
}

#[test]
fn stop_lets_an_agent_go_that_gets_nowhere() {
    let env = world("exclusive", &[task("b", "pending", None)]);
    let again = json!({ "stop_hook_active": true });
    for _ in 0..8 {
        blocked(call(&env, "stop", &again), &["next=b"]);
    }
    call(&env, "stop", &again).code(0).stdout("").stderr_contains("HARNESS: WARN");
    assert!(!env.exists(".harness-stop-counter"));
}

#[test]
fn stop_with_a_broken_ledger_says_so_once() {
    let env = world("exclusive", &[]);
    env.write("harness-tasks.json", "{ broken").write("harness-tasks.json.bak", "{\"tasks\":[]}");
    blocked(call(&env, "stop", &json!({})), &["harness-tasks.json", "not readable JSON"]);
    let again = json!({ "stop_hook_active": true });
    call(&env, "stop", &again).code(0).stdout("").stderr_contains("WARN");
    assert_eq!(env.read("harness-tasks.json"), "{ broken");
}

#[test]
fn a_worker_is_not_kept_for_the_tasks_of_others() {
    let env = world("concurrent", &[task("a", "in_progress", Some("other"))]);
    blocked(call(&env, "stop", &json!({})), &["next=a"]);
    let env = env.variable("HARNESS_WORKER_ID", "me");
    silent(call(&env, "stop", &json!({})));
    assert!(env.exists(".harness-active") && !env.exists(".harness-reflect"));
}

#[test]
fn limits_let_an_agent_go() {
    let env = world("exclusive", &[]);
    let ledger = |config: Value| {
        json!({ "version": 2, "session_count": 2, "session_config": config,
                "tasks": [task("a", "pending", None)] })
        .to_string()
    };
    env.write("harness-tasks.json", ledger(json!({ "max_sessions": 2 })));
    silent(call(&env, "stop", &json!({})));
    let log = "[2025-07-01T10:00:00Z] [SESSION-2] Completed [x] (commit abc1234)\n\
               [2025-07-01T10:00:00Z] [SESSION-2] ERROR [a] [TASK_EXEC] no\n\
               [2025-07-01T10:00:00Z] [SESSION-2] ERROR [stranger] [TASK_EXEC] no\n\
               [2025-07-01T10:00:00Z] [SESSION-1] Completed [x] (commit abc1234)\n";
    env.write("harness-progress.txt", log);
    for (most, goes) in [(2, true), (3, false), (0, false)] {
        env.write("harness-tasks.json", ledger(json!({ "max_tasks_per_session": most })));
        let ran = call(&env, "stop", &json!({})).code(0);
        assert_eq!(ran.output().is_empty(), goes, "{most}: {ran}");
    }
}

#[test]
fn session_start_tells_where_the_work_stands() {
    let env = world("exclusive", &[task("a", "completed", None), task("b", "pending", None)]);
    let long = "x".repeat(300);
    env.write("harness-progress.txt", format!("one\n{long}\n"));
    let context = |ran: Ran| {
        let out = ran.code(0).json()["hookSpecificOutput"].clone();
        assert_eq!(out["hookEventName"], "SessionStart");
        out["additionalContext"].as_str().unwrap().to_owned()
    };
    let said = context(call(&env, "session-start", &json!({})));
    let cut = format!("{}...", "x".repeat(217));
    let head = "HARNESS: completed=1 pending=1 total=2 next=b: Title b";
    assert_eq!(said, format!("{head}\nHARNESS: last_log={cut}"));
    env.write("harness-tasks.json", "[]");
    let said = context(call(&env, "session-start", &json!({})));
    assert!(said.starts_with("HARNESS: CONFIG error: cannot read harness-tasks.json: "), "{said}");
}

#[test]
fn only_teammate_idle_ends_with_2() {
    let env =
        world("concurrent", &[task("a", "in_progress", Some("w")), task("b", "pending", None)]);
    let mine = call(&env, "teammate-idle", &json!({ "teammate_name": "w" }));
    mine.code(2).stdout("").stderr_contains("[a] Title a");
    let open = call(&env, "teammate-idle", &json!({}));
    open.code(2).stderr_contains("HARNESS: 1 pending + 0 retryable").stderr_contains("next: [b]");
    for words in [&["hook"][..], &["hook", "x"], &["hook", "stop", "-x"], &["hook", "stop", "y"]] {
        assert!(!env.run(words).code(1).errors().is_empty());
    }
    env.run(["--color", "x", "hook", "stop"]).code(1);
    env.write("harness-tasks.json", "{");
    silent(call(&env, "teammate-idle", &json!({})));
}

#[test]
fn a_subagent_finishes_its_task_first() {
    let env = world("concurrent", &[task("a", "in_progress", Some("w"))]);
    let cases = [
        (json!({}), Some("worker identity")),
        (json!({ "agent_id": "w" }), Some("[a] Title a")),
        (json!({ "agent_id": "other" }), None),
        (json!({ "agent_id": "w", "agent_type": "" }), None),
        (json!({ "agent_id": "w", "stop_hook_active": true }), None),
    ];
    for (payload, expected) in cases {
        let ran = call(&env, "subagent-stop", &payload);
        match expected {
            Some(words) => blocked(ran, &[words]),
            None => silent(ran),
        }
    }
    let env = world("exclusive", &[task("a", "in_progress", Some("w"))]);
    blocked(call(&env, "subagent-stop", &json!({})), &["[a] Title a"]);
}

#[test]
fn an_agent_looks_back_as_often_as_it_is_told() {
    let env = world("exclusive", &[]).variable("REFLECT_MAX_ITERATIONS", "2");
    env.write(".harness-reflect", "");
    let entry = json!({ "type": "user", "message": { "role": "user", "content": "Make it so" } });
    env.write("transcript.jsonl", format!("{}\n{entry}\n", json!({ "type": "mode" })));
    let payload =
        json!({ "session_id": "../s", "transcript_path": env.root().join("transcript.jsonl") });
    silent(call(&env, "self-reflect", &json!({})));
    blocked(call(&env, "self-reflect", &payload), &["[Self-Reflect]", "1/2", "Make it so"]);
    blocked(call(&env, "self-reflect", &payload), &["2/2"]);
    silent(call(&env, "self-reflect", &payload));
    assert!(!env.exists(".harness-reflect"));
}

#[test]
fn claim_and_renew_always_answer() {
    let env = TestEnvironment::new();
    let of = |env: &TestEnvironment, hook, payload: Value| call(env, hook, &payload).code(0).json();
    assert_eq!(
        of(&env, "claim", json!({})),
        json!({ "claimed": false, "error": "state root not found" })
    );
    assert_eq!(of(&env, "renew", json!({}))["error"], "state root not found");
    let env = world("concurrent", &[task("a", "pending", None), task("b", "completed", None)]);
    assert_eq!(of(&env, "claim", json!({}))["error"], "missing HARNESS_WORKER_ID");
    assert_eq!(of(&env, "renew", json!({}))["error"], "missing HARNESS_WORKER_ID");
    let env = env.variable("HARNESS_WORKER_ID", "w");
    let claimed = of(&env, "claim", json!({}));
    assert_eq!((&claimed["claimed"], &claimed["task_id"]), (&json!(true), &json!("a")));
    assert_eq!((&claimed["worker_id"], &claimed["title"]), (&json!("w"), &json!("Title a")));
    assert!(claimed["lease_expires_at"].is_string());
    assert_eq!(of(&env, "renew", json!({ "task_id": "a" }))["renewed"], true);
    for (id, error) in [("x", "task not found"), ("b", "task not in_progress")] {
        assert_eq!(of(&env, "renew", json!({ "task_id": id }))["error"], error);
    }
    assert_eq!(of(&env, "renew", json!({}))["error"], "missing task_id");
    let env = env.variable("HARNESS_WORKER_ID", "v");
    assert_eq!(of(&env, "renew", json!({ "task_id": "a" }))["error"], "task owned by other worker");
    assert_eq!(of(&env, "claim", json!({})), json!({ "claimed": false }));
    env.write("harness-tasks.json", "{");
    assert!(of(&env, "claim", json!({}))["error"].is_string());
}

#[test]
fn hooks_are_silent_where_they_are_not_meant() {
    let env = world("exclusive", &[task("a", "in_progress", Some("w"))]);
    env.write(".harness-active", "mine\n").write(".harness-reflect", "mine\n");
    let hooks = ["stop", "session-start", "subagent-stop", "self-reflect", "pre-compact"];
    let mine = json!({ "session_id": "mine" });
    for hook in hooks {
        silent(call(&env, hook, &json!({ "session_id": "other" })));
        assert!(!call(&env, hook, &mine).code(0).output().is_empty(), "{hook}");
    }
    let env = env.variable("HARNESS_RUN_ID", "r");
    for hook in ["stop", "subagent-stop", "teammate-idle", "self-reflect"] {
        silent(call(&env, hook, &mine));
    }
    let env = env.without_variable("HARNESS_RUN_ID").variable("HARNESS_BIND", "1");
    call(&env, "session-start", &json!({ "session_id": "new" })).code(0).stdout_contains("total=1");
    assert_eq!(env.read(".harness-active"), "mine\nnew\n");
    let log = env.root().join("hooks.jsonl");
    let env = env.variable("HARNESS_HOOKS", "off").variable("HARNESS_HOOK_LOG", &log);
    hooks.into_iter().for_each(|hook| silent(call(&env, hook, &mine)));
    assert_eq!(env.read("hooks.jsonl").lines().count(), hooks.len());
    let env = env.without_variable("HARNESS_HOOKS");
    std::fs::remove_file(env.root().join(".harness-active")).unwrap();
    silent(call(&env, "stop", &mine));
}

#[test]
fn the_root_is_searched_where_the_agent_is() {
    let env = world("exclusive", &[task("a", "pending", None)]);
    let deep = |levels: usize| {
        let path = (0..levels).fold(env.root().to_owned(), |path, _| path.join("d"));
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let of = |cwd: std::path::PathBuf| call(&env, "stop", &json!({ "cwd": cwd }));
    blocked(of(deep(8)), &["next=a"]);
    silent(of(deep(9)));
    silent(of(env.home().to_owned()));
    let home = json!({ "cwd": env.home() });
    let project = env.root().to_owned();
    let env = env.variable("CLAUDE_PROJECT_DIR", &project);
    blocked(call(&env, "stop", &home), &["next=a"]);
    let empty = env.home().to_owned();
    let env = env.variable("HARNESS_STATE_ROOT", &empty).variable("CLAUDE_PROJECT_DIR", &empty);
    blocked(call(&env, "stop", &json!({})), &["next=a"]);
}

#[test]
fn input_that_makes_no_sense_is_none() {
    let env = world("exclusive", &[task("a", "pending", None)]);
    for input in ["", "null", "[1]", "\"x\"", "{", "{\"stop_hook_active\":", "\u{0}"] {
        blocked(env.run_with_input(input, ["hook", "stop"]), &["next=a"]);
    }
}

#[test]
fn of_several_hooks_the_first_that_speaks_answers() {
    let env = world("exclusive", &[task("a", "pending", None)]);
    let both = |payload: &Value| {
        env.run_with_input(&payload.to_string(), ["hook", "stop", "self-reflect"])
    };
    let session = json!({ "session_id": "s" });
    blocked(both(&session), &["next=a"]);
    env.write("harness-tasks.json", "{\"version\":2,\"tasks\":[]}");
    // The second hook sees the result of the first.
    blocked(both(&session), &["[Self-Reflect]", "1/5"]);
    env.run_with_input("{}", ["hook", "stop", "x"]).code(1).stderr_contains("\"x\"");
}
