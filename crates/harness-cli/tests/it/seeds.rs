//! Rules of the published protocols that other programs rely on.

use serde_json::{Value, json};

use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, Held, go, stage},
    terminal::Terminal,
};

#[test]
fn a_work_tree_in_the_environment_leads_to_its_ledger() {
    let env = TestEnvironment::with_git();
    let elsewhere = env.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let plan = r#"{"goal": "g", "tasks": {"a": {"description": "A"}}}"#;
    let file = env.home().join("plan.md");
    std::fs::write(&file, format!("```json\n{plan}\n```\n")).unwrap();
    let there = |args: &[&str]| {
        let mut command = env.harness(args);
        command.current_dir(&elsewhere).env("HARNESS_WORKTREE", env.root());
        command.output().unwrap()
    };
    assert!(there(&["plan", "import", file.to_str().unwrap()]).status.success());
    assert!(env.exists("harness-tasks.json"));
    let claimed = there(&["task", "claim", "--worker", "w"]);
    let claimed: Value = serde_json::from_slice(&claimed.stdout).unwrap();
    assert_eq!(claimed["task"]["id"], "a");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_worker_id_needs_no_ledger() {
    let env = TestEnvironment::new();
    let first = env.run(["worker-id"]).success().raw().to_owned();
    assert!(first.starts_with("worker-"), "{first}");
    assert_eq!(env.run(["worker-id"]).success().raw(), first);
}

#[test]
fn a_damaged_file_of_a_worker_id_is_replaced() {
    let env = TestEnvironment::new();
    let file = env.home().join("id");
    std::fs::write(&file, "rubbish\n").unwrap();
    let env = env.variable("HARNESS_WORKER_ID_FILE", &file);
    let id = env.run(["worker-id"]).success().stderr_contains("it gets a new one").raw().to_owned();
    assert!(id.starts_with("worker-"), "{id}");
    assert_eq!(env.read(&file).trim_end(), id.trim_end());
}

#[test]
fn a_shutdown_without_a_daemon_is_no_error() {
    let env = TestEnvironment::of_worker().with_daemon();
    env.run(["shutdown"]).success().stdout("Daemon not running");
    env.run(["daemon", "stop"]).code(1);
}

#[test]
fn a_daemon_that_is_started_beside_a_run_names_the_run() {
    let env = stage();
    let held = Held::new(&env);
    let run = Going::start(&env, &["run", "write it", "--agent-command", &held.command]);
    held.is_at_work();
    let started = env.harness(["daemon", "start"]).env_remove("HARNESS_DAEMON").output().unwrap();
    let said = String::from_utf8(started.stderr).unwrap();
    assert!(said.contains("`harness run` serves this ledger already"), "{said}");
    held.release();
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn an_agent_of_an_objective_knows_its_worker() {
    let env = stage();
    go(&env, "echo $HARNESS_WORKER_ID > worker; echo TASK_COMPLETE", &[]).success();
    assert_eq!(env.read("worker"), "w\n");
}

#[test]
fn an_expired_claim_of_the_published_protocol_is_recorded_among_several_workers() {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    let ledger = json!({
        "version": 2,
        "session_config": { "concurrency_mode": "concurrent" },
        "tasks": [{
            "id": "a", "title": "A", "status": "in_progress", "claimed_by": "gone",
            "lease_expires_at": "2025-07-01T10:00:00Z", "max_attempts": 3,
        }],
    });
    env.write("harness-tasks.json", ledger.to_string());
    env.write(".harness-active", "");
    env.run_with_input("{}", ["hook", "claim"]).success();
    let errors = env.task(0)["error_log"].to_string();
    assert!(errors.contains("[SESSION_TIMEOUT] Lease expired (claimed_by=gone)"), "{errors}");
    assert_eq!(env.task(0)["attempts"], 1);
}

#[test]
fn a_ledger_that_cannot_be_recovered_is_in_the_log_of_a_run_too() {
    let env = stage();
    env.run(["add", "x", "--validate", "true"]).success();
    std::fs::remove_dir_all(env.root().join(".git/harness")).unwrap();
    env.write("harness-tasks.json", "{x");
    env.write("harness-tasks.json.bak", "{x");
    env.run(["run", "--agent", "shell"]).code(5);
    let log = env.read("harness-progress.txt");
    let words = "ERROR [ENV_SETUP] harness-tasks.json corrupted and unrecoverable";
    assert!(log.contains(words), "{log}");
}

#[test]
fn the_lease_of_a_claim_by_the_hook_is_that_of_the_protocol() {
    let lease = |env: &TestEnvironment, claim: &[&str]| {
        let ran = env.run_with_input(r#"{"session_id":"s"}"#, claim).success();
        assert!(!ran.output().contains("\"claimed\":false"), "{ran}");
        let time = |name: &str| {
            let task = env.task(0);
            harness_core::Timestamp::parse(task[name].as_str().unwrap()).unwrap()
        };
        time("lease_expires_at").since(time("claimed_at"))
    };
    let hook = ["hook", "claim"];
    let worker = ["task", "claim", "--worker", "w"];
    for with_daemon in [false, true] {
        let fresh = || {
            let env = TestEnvironment::with_git();
            let env = if with_daemon { env.with_daemon() } else { env };
            env.run(["init"]).success();
            env.run(["add", "t", "--validate", "true"]).success();
            env
        };
        // A client's lease is rounded up by a second.
        assert_eq!(lease(&fresh(), &hook), 1801);
        assert_eq!(lease(&fresh(), &worker), 601);
        for claim in [&hook[..], &worker] {
            let env = fresh().variable("HARNESS_LEASE_SECONDS", "90");
            assert_eq!(lease(&env, claim), 91, "{claim:?}");
            let env = fresh().variable("HARNESS_LEASE_SECONDS", "90");
            env.run(["task", "edit", "task-001", "--attempt-timeout", "40"]).success();
            assert_eq!(lease(&env, claim), 41, "{claim:?}: the task's own limit comes first");
        }
    }
    // A renewal does not shorten it.
    let env = TestEnvironment::with_git();
    env.run(["init"]).success();
    env.run(["add", "t", "--validate", "true"]).success();
    assert_eq!(lease(&env, &hook), 1801);
    let until = env.task(0)["lease_expires_at"].clone();
    env.run_with_input(r#"{"session_id":"s"}"#, ["hook", "renew"]).success();
    assert_eq!(env.task(0)["lease_expires_at"], until);
}

#[test]
fn on_a_terminal_add_asks_for_the_time_limit_of_the_check_too() {
    let env = stage().variable("TERM", "xterm");
    let mut terminal = Terminal::start(&env, &["add", "t"]);
    for (question, answer) in [
        ("Command that proves it is done", "true"),
        ("Time limit of that command", "90s"),
        ("Priority", ""),
        ("Depends on", ""),
    ] {
        terminal.until(question);
        terminal.type_line(answer);
    }
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(env.task(0)["validation"]["timeout_seconds"], 90);
}

#[test]
fn init_names_the_files_before_it_asks_about_them() {
    let env = TestEnvironment::with_git().variable("TERM", "xterm");
    let mut terminal = Terminal::start(&env, &["init"]);
    let asked = terminal.until("Let git ignore these files");
    for name in ["harness-tasks.json", "harness-progress.txt", ".harness/"] {
        assert!(asked.contains(name), "{asked}");
    }
    terminal.type_line("y");
    let asked = terminal.until("Write one to fill in?");
    assert!(asked.contains("harness-init.sh would run at the start of every session"), "{asked}");
    terminal.type_line("n");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
}
