//! The daemon for people: it starts when it is needed, runs once per root, and ends when it is not
//! needed.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::{
    environment::TestEnvironment,
    host::{ask, connect},
};

pub(crate) fn world() -> TestEnvironment {
    let env = TestEnvironment::with_git().with_daemon().variable("HARNESS_WORKER_ID", "w");
    env.run(["init"]).success();
    env
}

fn plan(tasks: &Value) -> String {
    let plan = json!({ "goal": "g", "tasks": tasks });
    format!("Sure, here it is:\n\n```json\n{plan}\n```\nGood luck!\n")
}

fn import(env: &TestEnvironment, tasks: &Value) {
    env.write("plan.md", plan(tasks));
    env.run(["plan", "import", "--file", "plan.md"]).success();
}

fn task(env: &TestEnvironment, id: &str) -> Value {
    env.run(["get-state"]).success().json()["tasks"][id].clone()
}

/// A daemon in the foreground that ends with the test.
pub(crate) struct Foreground {
    pub(crate) child: Child,
    pub(crate) said: BufReader<std::process::ChildStderr>,
}

impl Foreground {
    pub(crate) fn start(env: &TestEnvironment, more: &[&str]) -> Self {
        let mut command = env.harness(["daemon", "s", "."]);
        command.args(more).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line}");
        Self { child, said }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.said, &mut rest).unwrap();
        (code, rest)
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn a_plan_is_handed_over_and_worked_through_its_daemon() {
    let env = TestEnvironment::with_git().with_daemon().variable("HARNESS_WORKER_ID", "w");
    env.write(
        "plan.md",
        plan(&json!({
            "a": { "description": "A", "instructions": "do it", "validation": { "command": "test -f a" } },
            "b": { "description": "B", "dependencies": ["a"], "role": "tester" },
        })),
    );
    env.run(["plan", "import", "--file", "plan.md"]).success().stdout("Plan imported (2 tasks)");
    assert!(env.exists(".harness-active") && env.exists("harness-progress.txt"));
    let pid: u32 = env.run(["daemon", "status"]).success().raw().parse().unwrap();
    let claimed = env.run(["task", "claim"]).success().json();
    assert_eq!(claimed["task"]["instructions"], "do it");
    assert_eq!(claimed["is_retry"], false);
    assert_eq!(env.run(["task", "claim"]).success().json()["is_retry"], true);
    let step = ["task", "checkpoint", "--id", "a", "--step", "1", "--total", "2", "half"];
    env.run(step).success().stdout("Task a is yours until [TIME]");
    env.run(["task", "complete", "--id", "a"])
        .code(1)
        .stderr_contains("Error: Task a: the check failed (exit code 1)")
        .stderr_contains("Hint: the task is still yours: fix it and complete it again");
    let claimed = task(&env, "a");
    assert_eq!((&claimed["status"], &claimed["attempts"]), (&json!("running"), &json!(0)));
    env.write("a", "");
    env.run(["task", "complete", "--id", "a"]).success().stdout("Task a completed");
    env.run(["task", "complete", "--id", "a"]).success().stdout("Task a completed");
    env.run(["task", "complete", "--id", "a", "--worker", "x"])
        .code(1)
        .stderr_contains("Error: Task a is not claimed by x")
        .stderr_contains("Hint: `harness task show a` shows the worker that holds it");
    env.run(["task", "claim", "--role", "coder"]).success().stdout(r#"{"task":null}"#);
    env.run(["task", "claim", "--role", "tester"]).success();
    env.run(["task", "fail", "--id", "b", "no"])
        .success()
        .stdout("Task b failed; it will be tried again");
    let receipt: Value = serde_json::from_str(&env.read(".harness/receipts/a.1.json")).unwrap();
    assert_eq!(receipt["check"]["command"], "test -f a");
    assert!(receipt["tree"].is_string());
    let log = env.read("harness-progress.txt");
    let head = env.git(["rev-parse", "--short=7", "HEAD"]);
    assert_eq!(log.matches(&format!("Completed [a] (commit {head})")).count(), 1, "{log}");
    assert_eq!(env.run(["daemon", "status"]).success().raw(), pid.to_string(), "still the same");
    env.run(["shutdown"]).success().stdout("Daemon stopped");
    env.run(["daemon", "status"]).code(1).stderr_contains("no daemon is running");
    assert!(!env.exists(".harness/socket"));
    assert_eq!(fs::read_dir(env.home().join("run")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn only_the_commands_of_workers_start_a_daemon() {
    let env = world();
    for args in [
        &["add", "one"][..],
        &["add", "two"],
        &["status"],
        &["log"],
        &["task", "list"],
        &["task", "edit", "task-001", "--priority", "P0"],
        &["task", "remove", "task-002"],
        &["plan", "export"],
        &["worker-id"],
        &["shutdown"],
    ] {
        env.run(args).success();
    }
    for args in [&["daemon", "status"][..], &["daemon", "stop"], &["questions"]] {
        env.run(args).code(1);
    }
    assert!(!env.kill_host(), "none of these starts one");
    env.write("plan.md", plan(&json!({ "x": { "description": "X" } })));
    for args in [
        &["ping"][..],
        &["get-state"],
        &["plan", "import", "--file", "plan.md", "--merge"],
        &["task", "claim"],
        &["task", "renew", "--id", "task-001"],
        &["task", "checkpoint", "--id", "task-001", "--step", "1", "--total", "1", "x"],
        &["task", "complete", "--id", "task-001"],
        &["task", "claim"],
        &["task", "fail", "--id", "x", "why"],
    ] {
        env.run(args).success();
        let pid = env.run(["daemon", "status"]).success().raw().to_owned();
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        let words = String::from_utf8(words).unwrap().replace('\0', " ");
        assert!(words.contains("--idle-seconds 1800"), "{words}");
        assert!(env.kill_host(), "{args:?} starts one");
    }
}

#[test]
fn there_is_one_daemon_per_root() {
    let env = world();
    let pid = env.run(["daemon", "start"]).success().raw().to_owned();
    assert_eq!(env.run(["daemon", "status"]).success().raw(), pid);
    let another = "Error: Another daemon is already running";
    env.run(["daemon", "start"]).code(1).stderr_contains(another);
    let elsewhere = env.home().join("elsewhere.sock");
    env.run(["daemon".as_ref(), elsewhere.as_os_str(), ".".as_ref()])
        .code(1)
        .stderr_contains(another);
    env.run(["ping"]).success().stdout("ok");
    env.run(["daemon", "stop"]).success().stdout("Daemon stopped");
    // Two roots cannot share a socket either.
    let _first = Foreground::start(&env, &[]);
    let other = TestEnvironment::new();
    let socket = env.root().join("s");
    other
        .run(["daemon".as_ref(), socket.as_os_str(), ".".as_ref()])
        .code(1)
        .stderr_contains(another);
    let other = other.with_daemon().variable("HARNESS_SOCKET", &socket);
    other.run(["ping"]).code(1).stderr_contains("Error: This socket serves another root: ");
}

#[test]
fn many_who_need_one_at_once_get_the_same() {
    let env = world();
    let pids: Vec<_> = thread::scope(|scope| {
        let starting: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    env.run(["ping"]).success().stdout("ok");
                    env.run(["daemon", "status"]).success().raw().to_owned()
                })
            })
            .collect();
        starting.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
}

/// A limit of the size of files stands for a full disk, which a test cannot make.
#[test]
fn a_daemon_whose_log_cannot_be_written_says_so() {
    let env = world();
    let mut limited = env.program("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" ping"]);
    let ran = env.ran(limited.arg(env!("CARGO_BIN_EXE_harness")).output().unwrap()).code(1);
    let why = "it printed nothing, because its log cannot be written: File too large";
    assert!(ran.errors().contains(why), "{ran}");
    env.run(["ping"]).success();
}

#[test]
fn a_daemon_that_can_not_start_says_why() {
    let env = world();
    env.write("notes.txt", "mine");
    let env = env.variable("HARNESS_SOCKET", "notes.txt");
    env.run(["ping"])
        .code(1)
        .stderr_contains("Error: Daemon crashed on startup: [ROOT]/notes.txt is not a socket");
    assert_eq!(env.read("notes.txt"), "mine");
    let env = env.variable("HARNESS_SOCKET", format!("/tmp/{}", "x".repeat(120)));
    env.run(["task", "claim"])
        .code(1)
        .stderr_contains("Error: Daemon crashed on startup: the socket path has 125 bytes");
    env.write("harness.toml", "nonsense = 1\n");
    let env = env.without_variable("HARNESS_SOCKET");
    env.run(["ping"]).code(1).stderr_contains("unknown key `nonsense`");
}

#[test]
fn it_ends_well_when_asked_by_a_signal() {
    let env = world();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let daemon = Foreground::start(&env, &[]);
        let mut client = connect(&env);
        assert_eq!(ask(&mut client, r#"{"command":"ping"}"#)["data"]["running"], true);
        daemon.signal(signal);
        assert_eq!(daemon.end(), (Some(0), String::new()));
        assert!(!env.exists("s") && !env.exists("s.lock") && !env.exists(".harness/socket"));
    }
}

#[test]
fn it_leaves_when_nobody_needs_it_or_can_find_it() {
    let env = world();
    let daemon = Foreground::start(&env, &["--idle-seconds", "0"]);
    assert_eq!(daemon.end().0, Some(0));
    let daemon = Foreground::start(&env, &["--idle-seconds", "1"]);
    let mut client = connect(&env);
    ask(&mut client, r#"{"command":"ping"}"#);
    drop(client);
    assert_eq!(daemon.end(), (Some(0), "no longer needed: ended\n".to_owned()));
    assert!(!env.exists("s"));
}

#[test]
fn a_check_that_outlasts_everything_is_waited_for() {
    let env = world();
    let [ready, go] = ["ready", "go"].map(|name| env.home().join(name));
    for fifo in [&ready, &go] {
        assert!(env.program("mkfifo").arg(fifo).status().unwrap().success());
    }
    let check = format!("echo in $PWD > {}; read x < {}", ready.display(), go.display());
    import(
        &env,
        &json!({ "a": { "description": "A", "timeout_seconds": 2, "validation": { "command": check } } }),
    );
    env.run(["task", "claim"]).success();
    let mut command = env.harness(["task", "complete", "--id", "a"]);
    let mut complete = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let place = fs::read_to_string(&ready).unwrap();
    assert_eq!(place.trim(), format!("in {}", env.root().display()), "in the daemon's work tree");
    // A message comes after a second of silence.
    let mut said = String::new();
    BufReader::new(complete.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "waiting for the check of a …\n");
    // This waits until the first lease would have ended.
    let renewals = || env.read(".harness/trajectory.jsonl").matches("task_renew").count();
    while renewals() < 4 {
        thread::yield_now();
    }
    env.run(["task", "claim", "--worker", "x"]).success().stdout(r#"{"task":null}"#);
    // The check runs outside of the lock.
    env.run(["add", "meanwhile"]).success();
    fs::write(&go, "go\n").unwrap();
    assert!(complete.wait().unwrap().success());
    assert_eq!(task(&env, "a")["attempts"], 1);
}

#[test]
fn a_check_is_stopped_with_its_client_and_with_its_daemon() {
    let env = world();
    let ready = env.home().join("ready");
    assert!(env.program("mkfifo").arg(&ready).status().unwrap().success());
    let check = format!("echo $$ > {}; exec sleep 600", ready.display());
    import(&env, &json!({ "a": { "description": "A", "validation": { "command": check } } }));
    env.run(["task", "claim"]).success();
    let started = || {
        let mut command = env.harness(["task", "complete", "--id", "a"]);
        let client = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = fs::read_to_string(&ready).unwrap();
        (client, PathBuf::from(format!("/proc/{}", pid.trim())))
    };
    let (mut client, check) = started();
    client.kill().unwrap();
    client.wait().unwrap();
    // The next one has to wait until the first has ended.
    let (client, second) = started();
    assert!(!check.exists(), "it ended with its client");
    env.run(["shutdown"]).success();
    assert!(!second.exists(), "it ended with its daemon");
    let end = client.wait_with_output().unwrap();
    let said = String::from_utf8(end.stderr).unwrap();
    assert_eq!(end.status.code(), Some(1));
    assert!(said.contains("Error: Task a: the check was stopped"), "{said}");
    let left = task(&env, "a");
    assert_eq!((&left["status"], &left["attempts"]), (&json!("running"), &json!(0)));
}

#[test]
fn a_worker_that_lost_its_lease_is_refused() {
    let env = world();
    import(&env, &json!({ "a": { "description": "A", "timeout_seconds": 1 } }));
    env.run(["task", "claim", "--worker", "slow"]).success();
    // This claim waits for the end of the lease.
    let claimed = env.run(["task", "claim", "--worker", "quick", "--wait"]).success().json();
    assert_eq!((&claimed["is_reclaim"], &claimed["task"]["attempts"]), (&json!(true), &json!(1)));
    env.run(["task", "complete", "--id", "a", "--worker", "slow"])
        .code(1)
        .stderr_contains("Error: Task a is not claimed by slow");
    env.run(["task", "complete", "--id", "a", "--worker", "quick"]).success();
}

#[test]
fn whoever_waits_for_a_task_hears_of_it() {
    let env = world();
    import(
        &env,
        &json!({ "a": { "description": "A" }, "b": { "description": "B", "dependencies": ["a"] } }),
    );
    env.run(["task", "claim", "--worker", "first"]).success();
    env.run(["task", "claim", "--worker", "second", "--wait", "0"])
        .success()
        .stdout(r#"{"task":null}"#);
    let waiting = |worker: &str| {
        let mut command = env.harness(["task", "claim", "--wait", "--worker", worker]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let heard = |mut child: Child| {
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "waiting for a task …\n");
        child
    };
    let claimed = |child: Child| -> Value {
        serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
    };
    let second = heard(waiting("second"));
    env.run(["task", "complete", "--id", "a", "--worker", "first"]).success();
    assert_eq!(claimed(second)["task"]["id"], "b");
    // A waiting client also notices changes of the files by others.
    let third = heard(waiting("third"));
    let mut off = env.harness(["add", "by the files"]);
    assert!(off.env("HARNESS_DAEMON", "off").output().unwrap().status.success());
    assert_eq!(claimed(third)["task"]["description"], "by the files");
    // It also notices the end of the daemon.
    let fourth = heard(waiting("fourth"));
    env.run(["shutdown"]).success();
    assert_eq!(claimed(fourth), json!({ "task": null }));
}

#[test]
fn words_are_taken_or_not_as_the_project_wants() {
    let env = world();
    import(&env, &json!({ "a": { "description": "A" }, "b": { "description": "B" } }));
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "a"]).success();
    let log = env.read("harness-progress.txt");
    assert!(log.contains("WARN [a] no validation.command; completed on the word of w"), "{log}");
    env.write("harness.toml", "require_validation = true\n");
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "b"])
        .code(1)
        .stderr_contains("Error: Task b has no validation.command and require_validation is set")
        .stderr_contains("Hint: give it a check");
    assert_eq!(task(&env, "b")["status"], "running");
}

#[test]
fn nothing_of_an_untrusted_ledger_is_run() {
    let env = world();
    import(&env, &json!({ "a": { "description": "A", "validation": { "command": "touch ran" } } }));
    env.run(["task", "claim"]).success();
    env.run(["trust", "--revoke"]).success();
    env.run(["task", "complete", "--id", "a"])
        .code(5)
        .stderr_contains("is not trusted; it would run")
        .stderr_contains("harness trust");
    assert!(!env.exists("ran"));
}

#[test]
fn a_ledger_that_a_person_must_mend_is_exit_5() {
    let env = world();
    env.run(["ping"]).success();
    env.write("harness-tasks.json", r#"{"version":2,"tasks":[{"id":"a","status":"odd"}]}"#);
    env.run(["get-state"]).code(5).stderr_contains("odd");
    env.run(["task", "claim"]).code(5).stderr_contains("odd");
    env.write("harness-tasks.json", r#"{"version":2,"tasks":[{"id":"a","depends_on":["no"]}]}"#);
    env.run(["task", "claim"]).code(5).stderr_contains("Missing dependency: no (in a)");
    env.write("harness-tasks.json", r#"{"version":2,"tasks":[{"id":"a"}]}"#);
    env.run(["task", "claim"]).success();
}

#[test]
fn commands_on_the_files_and_through_the_daemon_see_one_ledger() {
    let env = world();
    env.run(["ping"]).success();
    let off = |args: &[&str]| {
        let mut command = env.harness(args);
        let output = command.env("HARNESS_DAEMON", "off").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    off(&["add", "one"]);
    assert_eq!(env.run(["task", "claim"]).success().json()["task"]["id"], "task-001");
    off(&["task", "complete", "--id", "task-001"]);
    assert_eq!(task(&env, "task-001")["status"], "completed");
    env.run(["add", "two"]).success();
    let claimed: Value = serde_json::from_str(&off(&["task", "claim"])).unwrap();
    assert_eq!(claimed["task"]["id"], "task-002");
    env.run(["task", "complete", "--id", "task-002"]).success();
    env.run(["plan", "reset", "--yes"])
        .success()
        .stdout_contains("Plan reset (2 tasks)\nArchived: ");
}

#[test]
fn a_run_has_the_daemon_make_way() {
    let env = world();
    env.run(["add", "one", "--instructions", "touch one", "--validate", "test -f one"]).success();
    env.run(["task", "claim", "--worker", "alice"]).success();
    let refused = env.run(["run", "--agent", "shell"]).code(1);
    refused
        .stderr_contains("Error: task task-001 is claimed by alice")
        .stderr_contains("harness task release task-001");
    let pid = env.run(["daemon", "status"]).success().raw().to_owned();
    env.run(["task", "release", "task-001"]).success();
    env.run(["run", "--agent", "shell"]).success();
    assert!(!Path::new(&format!("/proc/{pid}")).exists() || is_zombie(&pid), "the daemon is gone");
    env.run(["daemon", "status"]).code(1);
    assert_eq!(task(&env, "task-001")["status"], "completed");
}

/// Returns whether the process is a zombie, because there may be no parent that reaps it.
fn is_zombie(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

#[test]
fn an_old_daemon_and_a_new_client_say_so() {
    let env = world();
    let socket = env.home().join("old");
    let listener = UnixListener::bind(&socket).unwrap();
    let old = thread::spawn(move || {
        for stream in listener.incoming().take(4) {
            let mut client = BufReader::new(stream.unwrap());
            let mut line = String::new();
            client.read_line(&mut line).unwrap();
            let asked: Value = serde_json::from_str(&line).unwrap();
            let answer = match asked["command"].as_str().unwrap() {
                "ping" => json!({ "status": "ok", "data":
                    { "running": true, "pid": 7, "version": "0.0.1", "protocol": 0 } }),
                other => {
                    json!({ "status": "error", "message": format!("Unknown command: {other}") })
                }
            };
            writeln!(client.get_mut(), "{answer}").unwrap();
        }
    });
    let env = env.variable("HARNESS_SOCKET", &socket);
    env.run(["ping"]).success().stdout("ok").stderr_contains("has version 0.0.1 and protocol 0");
    env.run(["daemon", "status"]).success().stdout("7").stderr_contains("has version 0.0.1");
    env.run(["task", "claim"])
        .code(1)
        .stderr_contains("has version 0.0.1 and protocol 0, this one has")
        .stderr_contains("stop it with `harness shutdown`");
    old.join().unwrap();
}
