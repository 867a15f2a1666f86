//! The rules of the hooks, one by one: limits, counters and markers, which do not influence each
//! other.

use std::{fs, os::unix::fs::symlink};

use harness::clock::{Clock as _, SystemClock};
use harness_core::Timestamp;
use harness_sim::random::Random;
use serde_json::{Value, json};

use crate::{
    environment::{Ran, TestEnvironment},
    hooks::{blocked, call, silent, task, world},
};

const NAMES: [&str; 8] = [
    "stop",
    "session-start",
    "teammate-idle",
    "subagent-stop",
    "self-reflect",
    "pre-compact",
    "claim",
    "renew",
];

fn ledger(env: &TestEnvironment, document: Value) {
    env.write("harness-tasks.json", document.to_string());
}

fn context(ran: Ran) -> String {
    let said = ran.code(0).json();
    said["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_completed_lets_the_count_begin_anew() {
    let env = world("exclusive", &[task("b", "pending", None)]);
    let again = json!({ "stop_hook_active": true });
    for (counter, after) in [("8,0", None), ("7,0", Some("8,0")), ("x", Some("1,0")), ("8,5", None)]
    {
        env.write(".harness-stop-counter", counter);
        let ran = call(&env, "stop", &again).code(0);
        assert_eq!(ran.output().is_empty(), after.is_none(), "{counter}: {ran}");
        assert_eq!(env.exists(".harness-stop-counter"), after.is_some());
        after.into_iter().for_each(|after| assert_eq!(env.read(".harness-stop-counter"), after));
    }
    env.write(".harness-stop-counter", "8,0");
    ledger(&env, json!({ "tasks": [task("a", "completed", None), task("b", "pending", None)] }));
    blocked(call(&env, "stop", &again), &["next=b"]);
    assert_eq!(env.read(".harness-stop-counter"), "1,1");
    // An agent that was not kept before is blocked in any case.
    env.write(".harness-stop-counter", "8,1");
    blocked(call(&env, "stop", &json!({})), &["next=b"]);
}

#[test]
fn whoever_is_let_go_leaves_no_counter() {
    let env = world("exclusive", &[]);
    let again = json!({ "stop_hook_active": true });
    let pending = || [task("a", "pending", None)];
    for (document, payload) in [
        (json!({ "session_count": 50, "tasks": pending() }), json!({})),
        (json!({ "tasks": [] }), json!({})),
        (json!({ "tasks": 1 }), again),
    ] {
        ledger(&env, document.clone());
        env.write(".harness-active", "").write(".harness-stop-counter", "3,0");
        call(&env, "stop", &payload).code(0).stdout("");
        assert!(!env.exists(".harness-stop-counter"), "{document}");
    }
}

#[test]
fn the_tasks_of_a_session_are_counted_at_the_end_of_the_log_and_alone() {
    let env = world("exclusive", &[]);
    let document = |mode: &str| {
        let config = json!({ "max_tasks_per_session": 1, "concurrency_mode": mode });
        json!({ "session_count": 1, "session_config": config, "tasks": [task("a", "pending", None)] })
    };
    let done = "[2025-07-01T10:00:00Z] [SESSION-1] Completed [x] (commit abc1234)\n";
    ledger(&env, document("exclusive"));
    env.write("harness-progress.txt", done);
    silent(call(&env, "stop", &json!({})));
    env.write("harness-progress.txt", format!("{done}{}", "x\n".repeat(100_000)));
    blocked(call(&env, "stop", &json!({})), &["next=a"]);
    ledger(&env, document("concurrent"));
    env.write("harness-progress.txt", done);
    blocked(call(&env, "stop", &json!({})), &["next=a"]);
}

#[test]
fn an_agent_that_no_run_started_has_no_session_to_use_up() {
    let env = world("exclusive", &[]);
    let document = |count: u32| {
        json!({ "session_count": count, "session_config": { "max_tasks_per_session": 1 },
                "tasks": [task("a", "pending", None)] })
    };
    let line = |n: u32, what: &str| format!("[2025-07-01T10:00:00Z] [SESSION-{n}] {what}\n");
    ledger(&env, document(0));
    env.write("harness-progress.txt", line(0, "Completed [x] (commit abc1234)"));
    blocked(call(&env, "stop", &json!({})), &["next=a"]);
    // There was a run, and it is over.
    ledger(&env, document(1));
    let log = line(1, "Completed [x] (commit abc1234)") + &line(1, "LOCK released");
    env.write("harness-progress.txt", log);
    blocked(call(&env, "stop", &json!({})), &["next=a"]);
}

#[test]
fn who_holds_a_task_in_progress_is_said_with_a_way_out() {
    let mut of_a_worker = task("a", "in_progress", Some("worker-1"));
    of_a_worker["lease_expires_at"] = "2025-07-01T10:30:00Z".into();
    let env = world("exclusive", &[of_a_worker]);
    let said = "in progress: [a] Title a (worker-1, until 2025-07-01T10:30:00Z)\n";
    blocked(call(&env, "stop", &json!({})), &[said, "`harness task release ID`"]);
}

#[test]
fn tasks_that_can_be_tried_again_are_work() {
    let failed =
        json!({ "id": "f", "title": "F", "status": "failed", "attempts": 1, "max_attempts": 3 });
    let env = world("exclusive", &[failed.clone(), task("w", "pending", None)]);
    ledger(&env, json!({ "tasks": [failed] }));
    blocked(call(&env, "stop", &json!({})), &["HARNESS: failed=1 total=1 next=f: F\n"]);
    let idle = call(&env, "teammate-idle", &json!({})).code(2).stdout("");
    idle.stderr_contains("HARNESS: 0 pending + 1 retryable").stderr_contains("next: [f] F");
    let spent = json!({ "id": "f", "status": "failed", "attempts": 3, "max_attempts": 3 });
    let waits = json!({ "id": "g", "depends_on": ["f"] });
    ledger(&env, json!({ "tasks": [spent, waits] }));
    silent(call(&env, "teammate-idle", &json!({})));
    silent(call(&env, "stop", &json!({})));
    assert!(env.exists(".harness-reflect"));
}

#[test]
fn the_last_line_is_one_with_numbers_if_there_is_one() {
    let env = world("exclusive", &[task("a", "pending", None)]);
    let said = |log: String| {
        env.write("harness-progress.txt", log);
        let said = context(call(&env, "session-start", &json!({})));
        said.split_once("\nHARNESS: last_log=").map(|(_, line)| line.to_owned())
    };
    let line = |what: &str| format!("[2025-07-01T10:00:00Z] [SESSION-1] {what}\n");
    let stats = |n: u32| line(&format!("STATS tasks_total={n}"));
    let last = "[2025-07-01T10:00:00Z] [SESSION-1] STATS tasks_total=2";
    let log = format!("{}{}{}", stats(1), stats(2), line("INIT late"));
    assert_eq!(said(log).as_deref(), Some(last));
    assert_eq!(said(line("INIT late") + "\n \n").as_deref(), Some(line("INIT late").trim_end()));
    assert_eq!(said(String::new()), None);
    assert_eq!(said("x".repeat(220)), Some("x".repeat(220)));
    assert_eq!(said("é".repeat(221)), Some("é".repeat(217) + "..."));
    // A line that is too far back is not found.
    let far = format!("{}{}", stats(1), "y\n".repeat(100_000));
    assert_eq!(said(far).as_deref(), Some("y"));
}

#[test]
fn what_agents_are_told_has_a_bound() {
    let long = "t".repeat(50_000);
    let many: Vec<_> = (0..20)
        .map(|n| {
            json!({ "id": format!("t{n}"), "title": long, "status": "in_progress", "claimed_by": "w",
                    "instructions": long, "validation": { "command": long } })
        })
        .collect();
    let env = world("exclusive", &many);
    env.write("harness-progress.txt", "z".repeat(50_000));
    assert!(context(call(&env, "session-start", &json!({}))).chars().count() <= 10_000);
    let kept = call(&env, "pre-compact", &json!({})).code(0);
    assert!(kept.raw().chars().count() <= 10_000, "{}", kept.raw().len());
    ledger(&env, json!({ "tasks": 1, "x": long }));
    assert!(context(call(&env, "session-start", &json!({}))).chars().count() <= 10_000);
}

#[test]
fn a_summary_keeps_what_the_work_is_about() {
    let checkpoints =
        json!([{ "time": "2025-07-01T10:00:00Z", "step": 2, "total": 4, "description": "half" }]);
    let mine = json!({ "id": "a", "title": "A", "status": "in_progress", "claimed_by": "w", "instructions": "Do\nit",
                       "validation": { "command": "make test" }, "checkpoints": checkpoints });
    let other = task("b", "in_progress", Some("v"));
    let env = world("concurrent", &[]).variable("HARNESS_WORKER_ID", "w");
    let config = json!({ "concurrency_mode": "concurrent" });
    ledger(&env, json!({ "goal": "All of it", "session_config": config, "tasks": [mine, other] }));
    let handoff = json!({ "phase": "build", "completed": ["one"], "next_step": "write two" });
    env.write("state/handoff.json", handoff.to_string());
    let kept = call(&env, "pre-compact", &json!({})).code(0).stderr("");
    for words in [
        "HARNESS: keep all of this",
        "Objective: All of it\n",
        "Promise: a task is done only when its check passes",
        "Current task: [a] A\n  Instructions: Do\\nit\n  Check: make test\n  Last checkpoint: 2/4 half\n",
        "Ledger: in_progress=2 total=2",
        "Handoff (state/handoff.json):",
        "write two",
    ] {
        assert!(kept.output().contains(words), "no {words:?} in {kept}");
    }
    assert!(!kept.output().contains("[b]"), "{kept}");
    let env = env.variable("HARNESS_TASK_ID", "b");
    call(&env, "pre-compact", &json!({})).code(0).stdout_contains("Current task: [b] Title b");
    ledger(&env, json!({ "tasks": [] }));
    let kept = call(&env, "pre-compact", &json!({})).code(0);
    kept.stdout_contains("Current task: none").stdout_contains("work through harness-tasks.json");
    env.write("harness-tasks.json", "{");
    call(&env, "pre-compact", &json!({})).code(0).stdout_contains("CONFIG error");
}

/// An agent that harness started has its objective and its promise in the record of the run.
#[test]
fn a_summary_keeps_the_objective_of_a_run() {
    let env = TestEnvironment::with_git();
    env.run(["init"]).success();
    let binary = env!("CARGO_BIN_EXE_harness");
    let objective = format!(
        "{binary} hook pre-compact < /dev/null > kept; {binary} hook stop < /dev/null > stop"
    );
    env.run(["run", &objective, "--agent", "shell", "--completion-promise", "ALL_DONE"]).success();
    let kept = env.read("kept");
    assert!(kept.contains(&format!("Objective: {objective}\n")), "{kept}");
    assert!(kept.contains("Promise: print ALL_DONE only when all of it is done.\n"), "{kept}");
    assert_eq!(env.read("stop"), "");
}

#[test]
fn alone_a_session_claims_without_a_name() {
    let env = world("exclusive", &[task("a", "pending", None), task("b", "pending", None)]);
    fs::remove_file(env.root().join(".harness-active")).unwrap();
    let claim =
        |session: &str| call(&env, "claim", &json!({ "session_id": session })).code(0).json();
    let first = claim("s");
    assert_eq!((&first["claimed"], &first["task_id"]), (&json!(true), &json!("a")));
    let name = first["worker_id"].as_str().unwrap();
    assert!(name.starts_with("worker-") && !name.contains('s'), "{name}");
    assert_eq!(claim("s")["task_id"], "a");
    assert_eq!(
        call(&env, "renew", &json!({ "task_id": "a" })).code(0).json()["error"],
        "missing HARNESS_WORKER_ID"
    );
    let name = name.to_owned();
    let env = env.variable("HARNESS_WORKER_ID", name).variable("HARNESS_TASK_ID", "a");
    let renewed = call(&env, "renew", &json!({})).code(0).json();
    assert_eq!((&renewed["renewed"], &renewed["task_id"]), (&json!(true), &json!("a")));
    assert!(renewed["lease_expires_at"].is_string());
    // A renewal lasts as long as a claim: half an hour, or what the variable says.
    let left = |env: &TestEnvironment| {
        let end = call(env, "renew", &json!({})).code(0).json()["lease_expires_at"].clone();
        serde_json::from_value::<Timestamp>(end).unwrap().since(SystemClock.now())
    };
    assert!((1780..=1801).contains(&left(&env)), "{}", left(&env));
    let env = env.variable("HARNESS_LEASE_SECONDS", "7200");
    assert!((7180..=7201).contains(&left(&env)), "{}", left(&env));
    let env = env.variable("HARNESS_EPOCH", "7");
    assert_eq!(call(&env, "renew", &json!({})).code(0).json()["renewed"], false);
}

/// Holds the lock of the ledger as a session of this process would.
struct Locked(String);

impl Locked {
    fn of(env: &TestEnvironment) -> Self {
        let lock = format!("/tmp/harness-{}.lock", harness::home::root_hash(env.root()));
        fs::create_dir(&lock).unwrap();
        fs::write(format!("{lock}/pid"), std::process::id().to_string()).unwrap();
        Self(lock)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn hooks_that_read_wait_for_no_lock() {
    let env = world("exclusive", &[task("a", "pending", None)]);
    let _locked = Locked::of(&env);
    blocked(call(&env, "stop", &json!({})), &["next=a"]);
    assert!(context(call(&env, "session-start", &json!({}))).contains("next=a"));
    call(&env, "teammate-idle", &json!({})).code(2);
    call(&env, "pre-compact", &json!({})).code(0);
}

#[test]
fn without_its_marker_a_hook_is_silent() {
    let env = world("exclusive", &[task("a", "in_progress", Some("w"))]);
    fs::remove_file(env.root().join(".harness-active")).unwrap();
    let payload = json!({ "session_id": "s", "agent_id": "w", "teammate_name": "w" });
    for hook in NAMES.into_iter().filter(|hook| !matches!(*hook, "claim" | "renew")) {
        silent(call(&env, hook, &payload));
    }
}

#[test]
fn the_pin_goes_before_the_project_and_that_before_the_place() {
    let [pinned, project, place] =
        ["p", "q", "r"].map(|id| world("exclusive", &[task(id, "pending", None)]));
    let there = json!({ "cwd": place.root() });
    blocked(call(&place, "stop", &there), &["next=r"]);
    let env = place.variable("CLAUDE_PROJECT_DIR", project.root());
    blocked(call(&env, "stop", &there), &["next=q"]);
    let env = env.variable("HARNESS_STATE_ROOT", pinned.root());
    blocked(call(&env, "stop", &there), &["next=p"]);
    // Without a path from the agent it is the working directory, or a directory above it.
    let env = env.without_variable("HARNESS_STATE_ROOT").without_variable("CLAUDE_PROJECT_DIR");
    env.write("d/d/d/x", "");
    let below = env.run_with_input("{}", ["-C", "d/d/d", "hook", "stop"]);
    blocked(below, &["next=r"]);
}

#[test]
fn who_calls_is_known_by_the_environment_or_by_the_agents_word() {
    let tasks = [task("a", "in_progress", Some("me")), task("b", "in_progress", Some("other"))];
    let env = world("concurrent", &tasks).variable("HARNESS_WORKER_ID", "me");
    blocked(call(&env, "stop", &json!({})), &["in progress: [a]"]);
    blocked(call(&env, "subagent-stop", &json!({})), &["[a] Title a"]);
    call(&env, "teammate-idle", &json!({})).code(2).stderr_contains("[a] Title a");
    ledger(
        &env,
        json!({ "session_config": { "concurrency_mode": "concurrent" },
                "tasks": [task("u", "in_progress", None)] }),
    );
    // A task without an owner concerns everyone.
    blocked(call(&env, "stop", &json!({})), &["in progress: [u]"]);
    let env = world("concurrent", &tasks);
    let named = json!({ "teammate_name": "me" });
    blocked(call(&env, "subagent-stop", &named), &["[a] Title a"]);
}

#[test]
fn claim_and_renew_ask_the_host_or_say_who_is_busy() {
    let env = world("concurrent", &[task("a", "pending", None)]).variable("HARNESS_WORKER_ID", "w");
    let answer =
        |env: &TestEnvironment, hook| call(env, hook, &json!({ "task_id": "a" })).code(0).json();
    let env = env.variable("HARNESS_LOCK_TIMEOUT_SECONDS", "0");
    let locked = Locked::of(&env);
    let held = task("a", "in_progress", Some("w"));
    for (hook, done, state) in
        [("claim", "claimed", task("a", "pending", None)), ("renew", "renewed", held)]
    {
        ledger(
            &env,
            json!({ "session_config": { "concurrency_mode": "concurrent" }, "tasks": [state] }),
        );
        let busy = answer(&env, hook);
        assert_eq!(busy[done], false);
        assert!(busy["error"].as_str().unwrap().contains("Another harness session"), "{busy}");
    }
    drop(locked);
    env.write("harness-tasks.json", "{");
    for (hook, done) in [("claim", "claimed"), ("renew", "renewed")] {
        let broken = answer(&env, hook);
        assert_eq!(broken[done], false);
        assert!(broken["error"].as_str().unwrap().contains("harness-tasks.json"), "{broken}");
    }
    ledger(
        &env,
        json!({ "session_config": { "concurrency_mode": "concurrent" },
                "tasks": [task("a", "pending", None)] }),
    );
    let env = env.without_variable("HARNESS_LOCK_TIMEOUT_SECONDS").with_daemon();
    env.run(["daemon", "start"]).success();
    let claimed = answer(&env, "claim");
    assert_eq!(
        (&claimed["claimed"], &claimed["title"]),
        (&json!(true), &json!("Title a")),
        "{claimed}"
    );
    assert_eq!(answer(&env, "renew")["renewed"], true);
    assert_eq!(answer(&env, "claim")["task_id"], "a");
    let other = env.variable("HARNESS_WORKER_ID", "v");
    assert_eq!(answer(&other, "claim"), json!({ "claimed": false }));
    assert_eq!(answer(&other, "renew")["error"], "task owned by other worker");
}

#[test]
fn no_hook_brings_a_broken_ledger_back() {
    let env = world("exclusive", &[]).variable("HARNESS_WORKER_ID", "w");
    env.write("harness-tasks.json", "{ broken").write("harness-tasks.json.bak", "{\"tasks\":[]}");
    env.write(".harness-reflect", "");
    let payload = json!({ "session_id": "s", "task_id": "a", "agent_id": "x" });
    for hook in NAMES {
        call(&env, hook, &payload).code(0);
        assert_eq!(env.read("harness-tasks.json"), "{ broken", "{hook}");
        assert!(!env.exists(".harness/archive"), "{hook}");
    }
    silent(call(&env, "subagent-stop", &payload));
}

#[test]
fn a_started_agent_is_told_things_and_kept_from_nothing() {
    let env = world("exclusive", &[task("a", "pending", None)]).variable("HARNESS_RUN_ID", "r");
    env.write(".harness-reflect", "");
    let payload = json!({ "session_id": "s" });
    for hook in ["stop", "subagent-stop", "teammate-idle", "self-reflect"] {
        silent(call(&env, hook, &payload));
    }
    assert!(context(call(&env, "session-start", &payload)).contains("next=a"));
    call(&env, "pre-compact", &payload).code(0).stdout_contains("next=a");
    let env = env.variable("HARNESS_HOOKS", "off");
    silent(call(&env, "session-start", &payload));
    silent(call(&env, "pre-compact", &payload));
    assert_eq!(call(&env, "claim", &payload).code(0).json()["claimed"], true);
}

#[test]
fn looking_back_is_counted_by_session_and_below_our_directory() {
    let env = world("exclusive", &[]).variable("REFLECT_MAX_ITERATIONS", "1");
    env.write(".harness-reflect", "");
    let long = "p".repeat(3000);
    let entry = json!({ "type": "user", "message": { "role": "user", "content": long } });
    env.write("t.jsonl", format!("not json\n{entry}\n"));
    let of = |id: &str| json!({ "session_id": id, "transcript_path": env.root().join("t.jsonl") });
    let cut = format!("{}...", "p".repeat(1997));
    blocked(call(&env, "self-reflect", &of("../../x")), &["1/1", &cut]);
    blocked(call(&env, "self-reflect", &of("y")), &["1/1"]);
    let kept: Vec<_> = fs::read_dir(env.root().join(".harness/hooks")).unwrap().collect();
    assert_eq!(kept.len(), 2);
    let env = env.variable("REFLECT_MAX_ITERATIONS", "0");
    silent(call(&env, "self-reflect", &json!({ "session_id": "z" })));
    assert!(env.exists(".harness-reflect"));
}

#[test]
fn a_line_is_kept_of_each_call() {
    let env = world("exclusive", &[task("a", "pending", None)]);
    let log = env.root().join("log.jsonl");
    let env = env.variable("HARNESS_HOOK_LOG", &log).variable("SOME_TOKEN", "next=a: Title a");
    let payload = json!({ "session_id": "s", "hook_event_name": "Stop" });
    call(&env, "stop", &payload).code(0);
    call(&env, "teammate-idle", &payload).code(2);
    let text = env.read("log.jsonl");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |at: usize, key: &str| lines[at][key].clone();
    assert_eq!(
        (of(0, "hook"), of(0, "event"), of(0, "session_id")),
        (json!("stop"), json!("Stop"), json!("s"))
    );
    assert_eq!(of(0, "root"), json!(env.root()));
    assert_eq!((of(0, "exit_code"), of(1, "exit_code")), (json!(0), json!(2)));
    let said = of(0, "stdout").as_str().unwrap().to_owned();
    assert!(said.contains("total=1 [redacted:SOME_TOKEN]") && !said.contains("Title a"), "{text}");
    let env = env.variable("HARNESS_HOOK_LOG", "/");
    call(&env, "stop", &payload).code(0).stdout_contains("next=a").stderr_contains("HARNESS: WARN");
}

#[test]
fn links_in_place_of_our_files_are_not_followed() {
    let env = world("exclusive", &[task("a", "pending", None)]);
    let target = env.home().join("target");
    fs::write(&target, "7,0").unwrap();
    let path = |name: &str| env.root().join(name);
    symlink(&target, path(".harness-stop-counter")).unwrap();
    let again = json!({ "stop_hook_active": true, "session_id": "s" });
    call(&env, "stop", &again).code(0).stderr_contains("HARNESS: WARN");
    assert_eq!(fs::read_to_string(&target).unwrap(), "7,0");
    fs::remove_file(path(".harness-active")).unwrap();
    fs::write(&target, "").unwrap();
    symlink(&target, path(".harness-active")).unwrap();
    symlink(&target, path(".harness-reflect")).unwrap();
    let env = env.variable("HARNESS_BIND", "1");
    for hook in ["stop", "session-start", "self-reflect"] {
        silent(call(&env, hook, &again));
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "");
}

#[test]
fn projects_and_sessions_do_not_mix() {
    let one = world("exclusive", &[task("a", "pending", None)]);
    let two = world("exclusive", &[task("b", "completed", None)]);
    // A call from the other project is about the project that the agent names.
    let payload = json!({ "cwd": one.root(), "session_id": "s" });
    blocked(call(&two, "stop", &payload), &["next=a"]);
    assert!(two.exists(".harness-active") && !two.exists(".harness-reflect"));
    assert!(one.exists(".harness-stop-counter") && !two.exists(".harness-stop-counter"));
    silent(call(&one, "stop", &json!({ "cwd": two.root(), "session_id": "s" })));
    assert!(two.exists(".harness-reflect") && one.exists(".harness-active"));
    // The hooks are bound to one session, and the other one is not affected.
    let one = one.variable("HARNESS_BIND", "1");
    assert!(context(call(&one, "session-start", &json!({ "session_id": "s" }))).contains("next=a"));
    assert_eq!(one.read(".harness-active"), "s\n");
    let one = one.without_variable("HARNESS_BIND");
    for hook in ["stop", "session-start", "teammate-idle", "subagent-stop", "pre-compact"] {
        silent(call(&one, hook, &json!({ "session_id": "t" })));
        silent(call(&one, hook, &json!({})));
    }
    blocked(call(&one, "stop", &json!({ "session_id": "s" })), &["next=a"]);
    ledger(&one, json!({ "tasks": [] }));
    silent(call(&one, "stop", &json!({ "session_id": "s" })));
    assert_eq!(one.read(".harness-reflect"), "s\n");
    silent(call(&one, "self-reflect", &json!({ "session_id": "t" })));
    blocked(call(&one, "self-reflect", &json!({ "session_id": "s" })), &["1/5"]);
}

/// Makes a few hundred of the random calls through the binary itself. The unit tests make ten
/// thousand of each.
#[test]
fn random_input_ends_as_it_may() {
    let told = std::env::var("HARNESS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = told.unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761);
    println!("HARNESS_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let env = world("exclusive", &[]).variable("RUST_BACKTRACE", "1");
    let ledgers = ["{", "", "[]", "{\"tasks\":[]}", "{\"tasks\":[{\"id\":\"a\",\"title\":\"A\"}]}"];
    let values = ["true", "null", "\"a\"", "\"\\ud800\"", "[1,", "1e999", "\"\u{0}\""];
    let fields =
        ["session_id", "stop_hook_active", "task_id", "teammate_name", "cwd", "agent_type"];
    for hook in NAMES {
        for _ in 0..30 {
            env.write("harness-tasks.json", random.pick(&ledgers).unwrap());
            env.write(".harness-active", "").write(".harness-reflect", "");
            let field = |random: &mut Random| {
                format!("\"{}\":{}", random.pick(&fields).unwrap(), random.pick(&values).unwrap())
            };
            let input: Vec<_> = (0..random.below(4)).map(|_| field(&mut random)).collect();
            let input = format!("{{{}}}", input.join(","));
            let ran = env.run_with_input(&input, ["hook", hook]);
            let words = format!("seed {seed}: {hook} {input:?}: {ran}");
            assert!(
                ran.ended_with(&[0]) || hook == "teammate-idle" && ran.ended_with(&[2]),
                "{words}"
            );
            assert!(
                !ran.errors().contains("panicked") && !ran.errors().contains("backtrace"),
                "{words}"
            );
        }
    }
}

#[test]
fn a_line_of_the_log_without_a_time_counts_for_the_tasks_of_a_session() {
    let env = world("exclusive", &[]);
    let config = json!({ "max_tasks_per_session": 1 });
    let tasks = [task("a", "pending", None)];
    ledger(&env, json!({ "session_count": 1, "session_config": config, "tasks": tasks }));
    env.write("harness-progress.txt", "[SESSION-1] Completed [x] (commit abc1234)\n");
    silent(call(&env, "stop", &json!({})));
    env.write("harness-progress.txt", "noise [SESSION-1] Completed [x] (commit abc1234)\n");
    blocked(call(&env, "stop", &json!({})), &["next=a"]);
}
