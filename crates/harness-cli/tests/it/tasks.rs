//! `harness add` and the `harness task` commands that change something.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::{environment::TestEnvironment, ledgers::assert_leads_with_wire_keys};

fn world() -> TestEnvironment {
    TestEnvironment::of_worker()
}

#[test]
fn add_numbers_tasks_and_stores_what_was_said() {
    let env = world();
    env.run(["add", "one"]).success().stdout("task-001");
    env.write("notes.md", "step by step\n");
    let args = [
        "add",
        "two",
        "--priority",
        "P0",
        "--depends-on",
        "task-001,task-001",
        "--validate",
        "make test",
        "--timeout",
        "60",
        "--attempt-timeout",
        "900",
        "--max-attempts",
        "5",
        "--cleanup",
        "make clean",
        "--instructions",
        "@notes.md",
        "--role",
        "backend",
        "--phase",
        "Build",
    ];
    env.run(args).success().stdout("task-002");
    assert_snapshot!(serde_json::to_string_pretty(&env.task(1)).unwrap(), @r#"
    {
      "id": "task-002",
      "title": "two",
      "status": "pending",
      "priority": "P0",
      "depends_on": [
        "task-001"
      ],
      "attempts": 0,
      "max_attempts": 5,
      "started_at_commit": null,
      "validation": {
        "command": "make test",
        "timeout_seconds": 60
      },
      "on_failure": {
        "cleanup": "make clean"
      },
      "error_log": [],
      "checkpoints": [],
      "completed_at": null,
      "instructions": "step by step\n",
      "role": "backend",
      "phase": "Build",
      "timeout_seconds": 900
    }
    "#);
    env.run_with_input("from stdin", ["add", "three", "--id", "my.own", "--instructions", "-"])
        .success()
        .stdout("my.own");
    assert_eq!(env.task(2)["instructions"], "from stdin");
    assert_eq!(env.run(["add", "four", "--json"]).success().json()["task_id"], "task-003");
}

#[test]
fn bad_input_is_named_and_changes_nothing() {
    let env = world();
    env.run(["add", "one"]).success();
    let before = env.read("harness-tasks.json");
    for (args, code, said) in [
        (&["add", "x", "--priority", "P9"][..], 1, "priority: \"P9\" is not one of P0, P1, P2"),
        (&["add", "x", "--depends-on", "ghost"], 1, "Unknown dependency: ghost"),
        (&["add", "x", "--depends-on", "../up"], 2, "is not a valid task id"),
        (&["add", "x", "--id", "a/b"], 2, "is not a valid task id"),
        (&["add", "x", "--id", "task-001"], 1, "Task task-001 already exists"),
        (&["add", " "], 1, "title: must not be empty"),
        (&["add", "x", "--timeout", "0"], 2, "--timeout"),
        (&["add", "x", "--instructions", "@nowhere"], 1, "cannot read nowhere"),
        (&["task", "edit", "task-001", "--depends-on", "task-001"], 1, "would close a cycle"),
        (&["task", "edit", "task-001"], 2, "nothing to change"),
        (&["task", "edit", "ghost", "--role", "x"], 1, "Task ghost not found"),
        (&["task", "complete", "--id", "task-001"], 1, "Task task-001 is not claimed by w"),
        (&["task", "renew", "--id", "task-001"], 1, "Task task-001 is not claimed by w"),
        (&["task", "fail", "--id", "ghost", "why"], 1, "Task ghost not found"),
        (
            &["task", "fail", "--id", "task-001", "--category", "BORED", "why"],
            2,
            "unknown category \"BORED\"",
        ),
        (&["task", "release", "task-001"], 1, "Task task-001 is pending, not claimed"),
        (&["task", "retry", "task-001"], 1, "Task task-001 is pending, not failed"),
        (&["task", "checkpoint", "--step", "1", "--total", "1", "x"], 2, "no task was named"),
    ] {
        env.run(args).code(code).stderr_contains(said);
        assert_eq!(env.read("harness-tasks.json"), before, "{args:?}");
    }
}

#[test]
fn an_attempt_from_claim_to_completion() {
    let env = world();
    env.run(["add", "one", "--validate", "test -f done"]).success();
    let claim = env.run(["task", "claim"]).success().json();
    assert_leads_with_wire_keys(&claim["task"]);
    assert_eq!(claim["task"]["status"], "running");
    let env = env.variable("HARNESS_TASK_ID", "task-001").variable("HARNESS_EPOCH", "1");
    env.run(["task", "checkpoint", "--step", "1", "--total", "2", "half \"way\"\nthere"]).success();
    env.run(["task", "complete"])
        .code(1)
        .stderr_contains("Task task-001: the check failed (exit code 1)")
        .stderr_contains("the task is still yours");
    assert_eq!(env.task(0)["attempts"], 0);
    env.write("done", "");
    env.run(["task", "complete"]).success().stdout("Task task-001 completed");
    env.run(["task", "complete"]).success().stdout("Task task-001 completed");
    let done = env.task(0);
    assert_eq!(
        (&done["status"], &done["attempts"], &done["claimed_by"]),
        (&"completed".into(), &1.into(), &"w".into())
    );
    assert!(done["claimed_at"].is_string() && done["lease_expires_at"].is_null());
    let log = env.normalise(&env.read("harness-progress.txt"));
    let log: Vec<_> =
        log.lines().skip(1).map(|l| l.split_once("SESSION-0] ").unwrap().1.to_owned()).collect();
    let base = env.git(["rev-parse", "--short=7", "HEAD"]);
    assert_eq!(
        log,
        [
            format!("Starting [task-001] one (base={base})"),
            r#"CHECKPOINT [task-001] step=1/2 "half "way"\nthere""#.to_owned(),
            format!("Completed [task-001] (commit {base})"),
        ]
    );
}

#[test]
fn a_check_sees_its_task_and_its_tail_is_shown() {
    let env = world();
    let script = "env | grep ^HARNESS_ | sed s/JOB=.*/JOB=/ | sort; exit 3";
    env.run(["add", "one", "--validate", script]).success();
    env.run(["task", "claim"]).success();
    let ran = env.run(["task", "complete", "--id", "task-001"]).code(1);
    assert_snapshot!(ran.errors(), @r"
    checking task-001: env | grep ^HARNESS_ | sed s/JOB=.*/JOB=/ | sort; exit 3
    Error: Task task-001: the check failed (exit code 3)
      | HARNESS_ATTEMPT=1
      | HARNESS_DAEMON=off
      | HARNESS_EPOCH=1
      | HARNESS_JOB=
      | HARNESS_SESSION=0
      | HARNESS_STATE_ROOT=[ROOT]
      | HARNESS_TASK_ID=task-001
      | HARNESS_WORKER_ID=w
    Hint: the task is still yours: fix it and complete it again
    ");
    env.run(["task", "edit", "task-001", "--validate", "no-such-program --x"]).success();
    env.run(["task", "complete", "--id", "task-001"]).code(1).stderr_contains("cannot be run here");
    env.run(["task", "edit", "task-001", "--validate", "sleep 60", "--timeout", "1"]).success();
    env.run(["task", "complete", "--id", "task-001"])
        .code(1)
        .stderr_contains("took longer than 1 s");
}

#[test]
fn the_word_of_a_worker_counts_only_where_there_is_no_check() {
    let env = world();
    env.run(["add", "one"]).success();
    env.write("harness.toml", "require_validation = true\n");
    env.run(["task", "claim"]).success();
    env.write("harness.toml", "");
    // The claim keeps the rules that it was made under.
    env.run(["task", "complete", "--id", "task-001"])
        .code(1)
        .stderr_contains("require_validation is set");
    env.run(["task", "release", "task-001"]).success();
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "task-001"]).success();
    assert!(
        env.read("harness-progress.txt")
            .contains("WARN [task-001] no validation.command; completed on the word of w")
    );
}

#[test]
fn force_takes_over_but_never_skips_the_check() {
    let env = world();
    env.run(["add", "one", "--validate", "test -f done"]).success();
    env.run(["task", "claim", "--worker", "other"]).success();
    env.run(["task", "complete", "--id", "task-001"])
        .code(1)
        .stderr_contains("is not claimed by w");
    env.run(["task", "complete", "--id", "task-001", "--force"])
        .code(1)
        .stderr_contains("the check failed");
    env.write("done", "");
    env.run(["task", "complete", "--id", "task-001", "--force"]).success();
    assert!(
        env.read("harness-progress.txt")
            .contains("WARN [task-001] completed by force by w (claimed by other)")
    );
    let late = ["task", "complete", "--id", "task-001", "--worker", "other"];
    env.run(late).code(1).stderr_contains("Task task-001 is not claimed by other");
}

#[test]
fn a_failed_dependency_blocks_and_a_retry_frees() {
    let env = world();
    env.run(["add", "one", "--max-attempts", "1"]).success();
    env.run(["add", "two", "--depends-on", "task-001"]).success();
    env.run(["add", "three", "--depends-on", "task-002"]).success();
    env.run(["task", "claim"]).success();
    env.run(["task", "fail", "--id", "task-001", "broken"])
        .success()
        .stdout("Task task-001 failed; it failed for good");
    assert_eq!(env.run(["task", "claim"]).success().json()["task"], Value::Null);
    assert_eq!(env.task(1)["error_log"][0], "[DEPENDENCY] Blocked by failed task-001");
    assert_eq!(env.task(2)["error_log"][0], "[DEPENDENCY] Blocked by failed task-002");
    assert_eq!((&env.task(2)["status"], &env.task(2)["attempts"]), (&"failed".into(), &0.into()));
    env.run(["task", "retry", "task-001"]).success();
    assert_eq!(env.task(2)["error_log"], Value::Array(Vec::new()));
    for id in ["task-001", "task-002", "task-003"] {
        assert_eq!(env.run(["task", "claim"]).success().json()["task"]["id"], id);
        env.run(["task", "complete", "--id", id]).success();
    }
}

#[test]
fn a_lost_lease_is_recorded_and_the_late_holder_refused() {
    let env = world();
    env.run(["add", "one", "--attempt-timeout", "1"]).success();
    env.run(["task", "claim", "--worker", "slow"]).success();
    // The lease ended long ago.
    let ledger = env
        .read("harness-tasks.json")
        .replace(env.task(0)["lease_expires_at"].as_str().unwrap(), "2020-01-01T00:00:00Z");
    env.write("harness-tasks.json", ledger);
    let claim = env.run(["task", "claim", "--worker", "quick"]).success().json();
    assert_eq!((&claim["is_reclaim"], &claim["task"]["epoch"]), (&true.into(), &2.into()));
    assert_eq!(env.task(0)["error_log"][0], "[SESSION_TIMEOUT] Lease expired (claimed_by=slow)");
    env.run(["task", "complete", "--id", "task-001", "--worker", "slow"])
        .code(1)
        .stderr_contains("Task task-001 is not claimed by slow");
    env.run(["task", "complete", "--id", "task-001", "--worker", "quick", "--epoch", "1"]).code(1);
    env.run(["task", "complete", "--id", "task-001", "--worker", "quick", "--epoch", "2"])
        .success();
}

#[test]
fn what_people_wrote_into_the_ledger_stays() {
    let env = world();
    env.write("harness-tasks.json",
        "{\n\t\"owner\": \"me\",\n\t\"tasks\": [{\"x\": 1, \"id\": \"a\", \"title\": \"A\"}, {\"id\": \"b\", \"y\": [1,2]}]\n}");
    env.run(["task", "edit", "a", "--title", "new"]).success();
    let text = env.read("harness-tasks.json");
    assert_snapshot!(text.lines().take(6).collect::<Vec<_>>().join("\n"), @r#"
    {
      "owner": "me",
      "tasks": [
        {
          "x": 1,
          "id": "a",
    "#);
    assert!(text.contains("\"y\": [\n        1,\n        2\n      ]"), "{text}");
    assert!(text.ends_with("}\n"));
    assert!(env.read("harness-tasks.json.bak").contains("\t\"owner\""));
}

#[test]
fn a_broken_ledger_is_restored_by_the_next_change_and_kept_aside() {
    let env = world();
    env.run(["add", "one"]).success();
    env.run(["add", "two"]).success();
    env.write("harness-tasks.json", "{\"tasks\": [");
    let restored = env.run(["add", "three"]).success();
    restored.stderr_contains("WARN: harness-tasks.json was restored from the journal");
    assert_eq!(env.task(2)["title"], "three", "the journal has every change");
    env.write("harness-tasks.json", "{\"tasks\": [");
    let forget = || fs::remove_dir_all(env.root().join(".git/harness")).unwrap();
    forget();
    env.run(["add", "four"]).success().stderr_contains(
        "WARN: harness-tasks.json was not readable and was restored from its backup",
    );
    // The backup was the state before `three`.
    assert_eq!(env.task(2)["title"], "four");
    assert!(
        env.read("harness-progress.txt")
            .contains("RECOVERY action=\"restore harness-tasks.json.bak\"")
    );
    let kept: Vec<_> = fs::read_dir(env.root().join(".harness/archive")).unwrap().collect();
    assert_eq!(kept.len(), 2);
    forget();
    env.write("harness-tasks.json", "").write("harness-tasks.json.bak", "also broken");
    env.run(["add", "five"]).code(5).stderr_contains("corrupted and unrecoverable");
    assert!(
        env.read("harness-progress.txt")
            .ends_with("ERROR [ENV_SETUP] harness-tasks.json corrupted and unrecoverable\n")
    );
    assert_eq!(env.read("harness-tasks.json"), "");
}

#[test]
fn a_ledger_of_a_newer_version_is_left_alone() {
    let env = world();
    env.write("harness-tasks.json", r#"{"version": 3, "tasks": []}"#);
    env.run(["add", "x"]).code(5).stderr_contains("version 3 was written by a newer harness");
    assert_eq!(env.read("harness-tasks.json"), r#"{"version": 3, "tasks": []}"#);
}

#[test]
fn a_session_that_holds_the_lock_is_named() {
    let env = world().variable("HARNESS_LOCK_TIMEOUT_SECONDS", "0");
    // A script of the published protocol holds it, with our own pid.
    let hash = harness::home::root_hash(env.root());
    let lock = std::path::PathBuf::from(format!("/tmp/harness-{hash}.lock"));
    fs::create_dir(&lock).unwrap();
    fs::write(lock.join("pid"), format!("{}\n", std::process::id())).unwrap();
    let ran = env.run(["add", "x"]);
    fs::remove_dir_all(&lock).unwrap();
    ran.code(1).stderr_contains("Error: Another harness session is active (pid=[PID])");
    env.run(["add", "x"]).success();
}

#[test]
fn a_write_that_does_not_fit_leaves_everything_as_it_was() {
    let env = world();
    env.run(["add", "one"]).success();
    let before = ["harness-tasks.json", "harness-progress.txt"].map(|f| env.read(f));
    // No file may grow beyond 512 bytes, but the ledger does, so the write fails in the middle.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" add two";
    let mut command = env.program("sh");
    let ran = command.args(["-c", script, env!("CARGO_BIN_EXE_harness")]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write harness-tasks.json.tmp"), "{said}");
    assert_eq!(["harness-tasks.json", "harness-progress.txt"].map(|f| env.read(f)), before);
    assert!(!env.exists("harness-tasks.json.tmp"));
    env.run(["add", "two"]).success().stdout("task-002");
}

#[test]
fn there_is_always_a_next_number() {
    let env = TestEnvironment::new();
    env.run(["init"]).success();
    for id in ["task-18446744073709551615", "task-4294967294", "task-4294967295"] {
        env.run(["add", "far", "--id", id]).success();
    }
    env.run(["add", "one"]).success().stdout("task-4294967296");
    env.run(["add", "two"]).success().stdout("task-4294967297");
}

#[test]
fn an_interrupted_complete_ends_its_check() {
    let env = world();
    // The check writes its pid to a pipe. Opening the pipe waits for the other side.
    let pipe = env.home().join("pid");
    assert!(env.program("mkfifo").arg(&pipe).status().unwrap().success());
    let check = format!("echo $$ > {}; sleep 600", pipe.display());
    env.run(["add", "slow", "--validate", &check]).success();
    env.run(["task", "claim"]).success();
    let mut complete = env.harness(["task", "complete", "--id", "task-001"]);
    let mut child = complete.stderr(std::process::Stdio::null()).spawn().unwrap();
    let said = fs::read_to_string(&pipe).unwrap();
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let check = nix::unistd::Pid::from_raw(said.trim().parse().unwrap());
    assert!(nix::sys::signal::kill(check, None).is_err(), "the check goes on");
    assert_eq!(env.task(0)["status"], "in_progress");
}
