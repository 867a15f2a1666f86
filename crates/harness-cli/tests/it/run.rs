//! `harness run` over the ledger.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::environment::TestEnvironment;

pub(crate) fn world() -> TestEnvironment {
    TestEnvironment::of_worker()
}

pub(crate) fn add(
    env: &TestEnvironment,
    instructions: &str,
    validate: &str,
    more: &[&str],
) -> String {
    let args = ["add", "a task", "--instructions", instructions, "--validate", validate];
    env.run([&args[..], more].concat()).success().raw().to_owned()
}

/// Returns the log without times and sessions.
pub(crate) fn log(env: &TestEnvironment) -> Vec<String> {
    let log = env.read("harness-progress.txt");
    log.lines().map(|line| line.splitn(3, "] ").nth(2).unwrap_or(line).to_owned()).collect()
}

fn subjects(env: &TestEnvironment) -> Vec<String> {
    env.git(["log", "--format=%s"]).lines().map(str::to_owned).collect()
}

#[test]
fn what_passes_is_committed_and_what_fails_is_rolled_back_rescued_and_tried_again() {
    let env = world();
    let told = "test $HARNESS_SESSION = 1 -a -n \"$HARNESS_RUN_ID\" -a $HARNESS_TASK_ID = task-001";
    add(&env, &format!("{told} && touch one"), &format!("{told} && test -f one"), &[]);
    let flaky = "if [ $HARNESS_ATTEMPT = 2 ]; then touch two; else echo x > junk; fi";
    add(&env, flaky, "test -f two", &[]);
    env.write("mine.txt", "mine");
    let ended = env.run(["run", "--agent", "shell", "--json"]).success().json();
    assert_eq!(
        (&ended["outcome"], &ended["stop_reason"]),
        (&"succeeded".into(), &"complete".into())
    );
    assert_eq!(ended["counts"]["completed"], 2);
    assert_eq!(subjects(&env), ["task-002: a task", "task-001: a task", "start"]);
    assert_eq!((&env.task(0)["attempts"], &env.task(1)["attempts"]), (&1.into(), &2.into()));
    assert!(env.exists("one") && env.exists("two") && !env.exists("junk"));
    assert_eq!(env.read("mine.txt"), "mine");
    assert_eq!(env.git(["status", "--porcelain"]), "?? mine.txt");
    assert!(!env.exists(".harness-active"), "no work is left");
    env.run(["rescue", "restore", "task-002/1"]).success().stdout_contains("junk");
    assert_eq!(env.read("junk"), "x\n");
}

#[test]
fn the_shortest_run_prints_all_its_events_and_the_document_last() {
    let env = world();
    add(&env, "echo hello; touch one", "test -f one", &[]);
    let ran = env.run(["run", "--agent", "shell", "--events", "--json"]).success();
    let lines: Vec<Value> = ran.raw().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let (report, events) = lines.split_last().unwrap();
    assert_eq!((&report["version"], &report["outcome"]), (&1.into(), &"succeeded".into()));
    let kinds: Vec<_> = events.iter().map(|line| line["event"]["type"].as_str().unwrap()).collect();
    let at = |kind| kinds.iter().position(|k| *k == kind).unwrap_or_else(|| panic!("{kinds:?}"));
    assert!(at("harness:start") < at("task:start") && at("agent:text") < at("task:complete"));
    assert!(at("task:complete") < at("harness:complete"), "{kinds:?}");
    env.run(["run", "--events", "--detach"]).code(2);
}

#[test]
fn a_task_that_fails_for_good_blocks_and_the_exit_code_says_so() {
    let env = world();
    add(&env, "true", "false", &["--max-attempts", "1"]);
    add(&env, "true", "true", &["--depends-on", "task-001"]);
    env.run(["run", "--agent", "shell"]).code(4);
    assert_eq!(env.task(1)["error_log"][0], "[DEPENDENCY] Blocked by failed task-001");
    let log = log(&env).join("\n");
    assert!(log.contains("ERROR [task-001] [TEST_FAIL] The check failed (exit code 1)"), "{log}");
    assert!(log.ends_with("LOCK released"), "{log}");
}

#[test]
fn an_agent_that_fails_times_out_or_lies_is_rolled_back() {
    for (instructions, validate, more, error) in [
        ("echo x > a; exit 3", "true", &[][..], "[TASK_EXEC] "),
        ("echo x > a; exec sleep 600", "true", &["--attempt-timeout", "1"], "[TIMEOUT] "),
        ("echo x > a", "grep -q y a", &[], "[TEST_FAIL] "),
        ("echo x > a", "sleep 600", &["--timeout", "1"], "[TIMEOUT] "),
    ] {
        let env = world();
        env.write("a", "before").git(["add", "a"]);
        env.git(["commit", "--quiet", "-m", "a"]);
        add(&env, instructions, validate, &[&["--max-attempts", "1"], more].concat());
        env.run(["run", "--agent", "shell"]).code(4);
        let told = env.task(0)["error_log"][0].as_str().unwrap().to_owned();
        assert!(told.starts_with(error), "{instructions}: {told}");
        assert_eq!(env.read("a"), "before");
        assert_eq!(env.git(["status", "--porcelain"]), "");
    }
}

#[test]
fn a_cleanup_runs_after_the_rollback_and_an_init_script_before_everything() {
    let env = world();
    env.write("harness-init.sh", "echo prepared > .git/prepared\n").git(["add", "harness-init.sh"]);
    env.git(["commit", "--quiet", "-m", "init"]);
    env.run(["trust", "--yes"]).success();
    let cleanup = "test ! -e junk && echo cleaned > .git/cleaned";
    let more = ["--max-attempts", "1", "--cleanup", cleanup];
    add(&env, "test -f .git/prepared && touch junk", "false", &more);
    env.run(["run", "--agent", "shell"]).code(4);
    assert_eq!(env.read(".git/cleaned"), "cleaned\n");
    let log = log(&env);
    assert!(log.contains(&"INIT Environment health check: PASS".to_owned()));
    env.run(["add", "told nothing", "--validate", "true"]).success();
    env.run(["run", "--agent", "shell"])
        .code(5)
        .stderr_contains("WARN: no instructions for the shell agent to run: task-002");
    assert!(env.exists(".harness-active"), "work is left");
    env.run(["task", "remove", "task-002"]).success();
    env.write("harness-init.sh", "exit 1\n").git(["commit", "--quiet", "-am", "broken"]);
    env.run(["trust", "--yes"]).success();
    env.run(["task", "retry", "task-001"]).success();
    env.run(["run", "--agent", "shell"]).code(1).stderr_contains("harness-init.sh failed twice");
    assert_eq!(env.task(0)["attempts"], 0);
}

#[test]
fn an_agent_that_nobody_named_is_the_first_that_is_installed() {
    let env = crate::doctor::environment().variable("HARNESS_WORKER_ID", "w");
    env.run(["init"]).success();
    add(&env, "write the file", "test -f made", &[]);
    let none = env.run(["run"]).code(5).stderr_contains("no agent was chosen");
    none.stderr_contains("--agent claude").stderr_contains("--agent shell");
    let result = r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"TASK_COMPLETE"}"#;
    crate::doctor::program(&env, "claude", &format!("read -r prompt; : > made; echo '{result}'"));
    env.run(["run"]).success().stderr_contains("agent: claude, found on PATH");
    assert_eq!(subjects(&env), ["task-001: a task", "start"]);
    env.run(["runs", "list"]).success().stdout_contains("claude");
}

#[test]
fn what_needs_no_agent_is_said_before_one_is_chosen() {
    let env = world();
    env.run(["add", "x"])
        .success()
        .stderr_contains("note: task-001 has no check, so `harness run` cannot finish it");
    assert_eq!(env.run(["add", "y", "--validate", ""]).success().errors(), "");
    env.run(["run", "task-001"]).code(2).stderr_contains("harness run --task task-001");
    env.run(["run", "--dry-run"]).success().stdout_contains("task-001: x");
}

#[test]
fn a_repository_without_a_commit_gets_a_hint() {
    let env = TestEnvironment::new();
    env.git(["init", "--quiet"]);
    env.run(["init"]).success();
    add(&env, "touch made", "test -f made", &[]);
    env.run(["run", "--agent", "shell"])
        .code(5)
        .stderr_contains("the repository has no commit yet")
        .stderr_contains("git commit --allow-empty");
    assert_eq!(env.task(0)["status"], "pending");
}

#[test]
fn what_keeps_a_session_from_starting_is_said_and_nothing_is_touched() {
    let env = world();
    env.run(["run", "--agent", "nobody"]).code(5).stderr_contains("unknown agent \"nobody\"");
    add(&env, "true", "true", &[]);
    env.write("a", "x").git(["add", "a"]);
    env.run(["run", "--agent", "shell"])
        .code(5)
        .stderr_contains("the work tree has uncommitted changes: a")
        .stderr_contains("commit or stash them first");
    env.git(["rm", "--quiet", "--cached", "a"]);
    env.run(["task", "claim", "--worker", "bob"]).success();
    env.run(["run", "--agent", "shell"]).code(1).stderr_contains("task task-001 is claimed by bob");
    env.run(["task", "release", "task-001"]).success();
    env.run(["add", "no check", "--priority", "P0"]).success();
    env.run(["run", "--agent", "shell"])
        .code(5)
        .stderr_contains("WARN: task-002 has no check, so `harness run` cannot finish it")
        .stderr_contains("task-002: Missing validation.command");
    assert_eq!(env.task(0)["status"], "completed", "the rest is worked on first");
    assert_eq!(env.task(1)["status"], "pending");
    let without_git = TestEnvironment::new();
    without_git.run(["init"]).success();
    without_git.run(["run", "--agent", "shell"]).code(5).stderr_contains("git init");
}

#[test]
fn a_check_that_is_missing_costs_no_attempt_and_keeps_the_work() {
    let env = world();
    add(&env, "touch done", "no-such-checker", &[]);
    env.run(["run", "--agent", "shell"]).code(1).stderr_contains("the check cannot be run here");
    assert_eq!(
        (&env.task(0)["status"], &env.task(0)["attempts"]),
        (&"in_progress".into(), &0.into())
    );
    assert!(env.exists("done"));
    // The next session finds the work and checks it.
    env.run(["task", "edit", "task-001", "--validate", "test -f done"]).success();
    env.run(["run", "--agent", "shell"]).success();
    assert_eq!(env.task(0)["status"], "completed");
    assert_eq!(subjects(&env)[0], "task-001: a task");
}

#[test]
fn sessions_are_counted_and_bounded() {
    let env = world();
    for n in 0..3 {
        add(&env, &format!("touch {n}"), &format!("test -f {n}"), &[]);
    }
    let once = ["run", "--agent", "shell", "--once", "--max-tasks-per-session", "1", "--json"];
    let ended = env.run(once).code(3).json();
    assert_eq!((&ended["stop_reason"], &ended["sessions"]), (&"once".into(), &1.into()));
    let on = ["run", "--agent", "shell", "--max-tasks-per-session", "1", "--json"];
    // There are two more tasks, one for each session, and no session without a task.
    assert_eq!(env.run(on).success().json()["sessions"], 3);
    let full =
        env.read("harness-tasks.json").replace("\"max_sessions\": 50", "\"max_sessions\": 3");
    env.write("harness-tasks.json", full);
    assert_eq!(env.run(on).code(3).json()["stop_reason"], "max_sessions");
}

/// A session whose agent did `setup`, reported it, and hangs.
pub(crate) struct Hanging {
    run: Child,
    alive: PathBuf,
}

/// Creates two pipes. One reports that the agent hangs, and all its processes hold the other one
/// open.
pub(crate) fn pipes(env: &TestEnvironment) -> [PathBuf; 2] {
    let pipes = ["ready", "alive"].map(|name| env.home().join(name));
    for fifo in &pipes {
        assert!(env.program("mkfifo").arg(fifo).status().unwrap().success());
    }
    pipes
}

/// Returns a script with a child in a session of its own that holds the pipe open too.
pub(crate) fn hanging_script([ready, alive]: &[PathBuf; 2]) -> String {
    let (ready, alive) = (ready.display(), alive.display());
    format!("exec 9> {alive}\nsetsid sleep 600 &\necho ready > {ready}\nexec sleep 600")
}

impl Hanging {
    /// Starts a session whose second attempt does the work.
    pub(crate) fn start(env: &TestEnvironment, setup: &str, validate: &str) -> Self {
        let pipes = pipes(env);
        let script = format!(
            "if [ $HARNESS_ATTEMPT -gt 1 ]; then touch done; exit; fi\n{setup}\n{}",
            hanging_script(&pipes)
        );
        add(env, &script, validate, &[]);
        Self::run(env.harness(["run", "--agent", "shell"]), pipes)
    }

    pub(crate) fn run(mut command: Command, [ready, alive]: [PathBuf; 2]) -> Self {
        let run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // It is opened for reading and writing, so that neither side waits for the other to open
        // first.
        let held = File::options().read(true).write(true).open(&alive).unwrap();
        let mut said = String::new();
        BufReader::new(File::open(&ready).unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        drop(held);
        Self { run, alive }
    }

    pub(crate) fn kill(mut self) {
        // It is opened while there is a writer, so that the end of the last one is noticed.
        let alive = File::options().read(true).write(true).open(&self.alive).unwrap();
        let reading = File::open(&self.alive).unwrap();
        drop(alive);
        self.run.kill().unwrap();
        self.run.wait().unwrap();
        let mut rest = Vec::new();
        { reading }.read_to_end(&mut rest).unwrap();
    }
}

#[test]
fn each_row_of_the_recovery_matrix_after_kill_9() {
    let commit = "git -c user.name=a -c user.email=a@b commit --quiet --no-verify";
    for (setup, validate, recovery, attempts) in [
        ("", "test -f done", "action=\"fail\" reason=\"No progress detected\"", 2),
        ("touch done", "test -f done", "action=\"validate, then commit\"", 1),
        ("touch half", "test -f done", "action=\"validate, then commit\"", 2),
        (
            &format!("touch done; git add done; {commit} -m 'task-001: by the agent'"),
            "test -f done",
            "action=\"validate\" reason=\"task commits found\"",
            1,
        ),
        (
            &format!("touch part; git add part; {commit} -m 'task-001: part'; touch done"),
            "test -f done -a -f part -o $HARNESS_ATTEMPT = 2",
            "action=\"commit, then validate\"",
            1,
        ),
    ] {
        let env = world();
        env.write("mine.txt", "mine");
        Hanging::start(&env, setup, validate).kill();
        assert_eq!(env.task(0)["status"], "in_progress");
        env.run(["run", "--agent", "shell"]).success();
        let log = log(&env);
        let recovered: Vec<_> = log.iter().filter(|line| line.starts_with("RECOVERY")).collect();
        assert_eq!(recovered.len(), 1, "{setup}: {log:#?}");
        assert!(recovered[0].contains(recovery), "{setup}: {recovered:?}");
        let done = env.task(0);
        assert_eq!(
            (&done["status"], &done["attempts"]),
            (&"completed".into(), &attempts.into()),
            "{setup}"
        );
        assert_eq!(log.iter().filter(|l| l.starts_with("Completed [task-001]")).count(), 1);
        assert_eq!(env.git(["status", "--porcelain"]), "?? mine.txt");
        assert_eq!(env.read("mine.txt"), "mine");
    }
}

#[test]
fn no_script_outlives_a_harness_that_is_killed() {
    let run = ["run", "--agent", "shell"];
    for (what, args) in [
        ("a check of a run", &run[..]),
        ("a check of a worker", &["task", "complete", "--id", "task-001"]),
        ("the init script", &run),
        ("the check of an objective", &["run", "true", "--agent", "shell", "--verify", "sh hang"]),
    ] {
        let env = world();
        let pipes = pipes(&env);
        let is_init = what == "the init script";
        env.write(if is_init { "harness-init.sh" } else { "hang" }, hanging_script(&pipes));
        env.git(["add", "--all"]);
        env.git(["commit", "--quiet", "--message", "the script"]);
        env.run(["trust", "--yes"]).success();
        add(&env, "true", if is_init { "true" } else { "sh hang" }, &[]);
        if args[0] == "task" {
            env.run(["task", "claim"]).success();
        }
        // This returns when the last process of the script is gone.
        Hanging::run(env.harness(args), pipes).kill();
    }
}

#[test]
fn an_interrupt_leaves_the_task_recoverable_and_no_process() {
    for (setup, status) in [("", "pending"), ("touch half", "in_progress")] {
        let env = world();
        let mut hanging = Hanging::start(&env, setup, "test -f done");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(hanging.run.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        assert_eq!(hanging.run.wait().unwrap().code(), Some(130));
        assert_eq!((&env.task(0)["status"], &env.task(0)["attempts"]), (&status.into(), &0.into()));
        let log = log(&env);
        assert_eq!(log.last().unwrap(), "LOCK released");
        // The lock is free again.
        env.run(["add", "after"]).success();
    }
}

#[test]
fn killed_at_random_moments_it_still_does_everything_exactly_once() {
    let seed = std::env::var("HARNESS_TEST_SEED").ok().and_then(|s| s.parse().ok());
    let mut random: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761);
    println!("HARNESS_TEST_SEED={random}");
    let env = world();
    env.write("mine.txt", "mine");
    for n in 0..6 {
        let flaky = format!("echo $HARNESS_ATTEMPT > f{n}; test $HARNESS_ATTEMPT -gt {}", n % 2);
        add(&env, &flaky, &format!("test -s f{n}"), &["--max-attempts", "50"]);
    }
    for _ in 0..25 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut command = env.harness(["run", "--agent", "shell"]);
        let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // The moment is shortly after a line of the log.
        let lines = BufReader::new(run.stderr.take().unwrap()).lines();
        lines.take(usize::try_from(random % 9).unwrap()).for_each(drop);
        (0..random % 200_000).for_each(|n| _ = std::hint::black_box(n));
        run.kill().unwrap();
        run.wait().unwrap();
    }
    env.run(["run", "--agent", "shell"]).success();
    let log = log(&env);
    for n in 0..6 {
        let id = format!("task-{:03}", n + 1);
        assert_eq!(env.task(n)["status"], "completed", "{log:#?}");
        let completed = log.iter().filter(|l| l.starts_with(&format!("Completed [{id}]"))).count();
        assert_eq!(completed, 1, "{id}: {log:#?}");
        let commits = subjects(&env).iter().filter(|s| s.starts_with(&id)).count();
        assert_eq!(commits, 1, "{id}");
    }
    assert_eq!(env.read("mine.txt"), "mine");
    assert_eq!(env.git(["status", "--porcelain"]), "?? mine.txt");
}

#[test]
fn a_dry_run_says_the_order_and_touches_nothing() {
    let env = world();
    add(&env, "true", "make one", &["--priority", "P2"]);
    add(&env, "true", "make two", &[]);
    add(&env, "true", "make three", &["--depends-on", "task-001"]);
    let before = env.read("harness-tasks.json");
    let dry = ["run", "--agent", "shell", "--dry-run"];
    let planned = env.run([&dry[..], &["--json"]].concat()).success().json();
    let ids: Vec<_> =
        planned["planned"].as_array().unwrap().iter().map(|p| &p["task_id"]).collect();
    assert_eq!(ids, ["task-002", "task-001", "task-003"]);
    env.run(dry).success().stdout_contains("work     task-002: a task  (make two)");
    assert_eq!(env.read("harness-tasks.json"), before);
}

#[test]
fn a_detached_run_goes_on_and_notifies() {
    let env = world().variable("HARNESS_LOCK_TIMEOUT_SECONDS", "60");
    let told = env.home().join("told");
    assert!(env.program("mkfifo").arg(&told).status().unwrap().success());
    env.write("harness.toml", format!("notify = \"cat > {}\"\n", told.display()));
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "-m", "notify"]);
    env.run(["trust", "--yes"]).success();
    add(&env, "touch one", "test -f one", &[]);
    env.run(["run", "--agent", "shell", "--detach"]).success().stdout_contains("running (pid=");
    let mut event = String::new();
    File::open(&told).unwrap().read_to_string(&mut event).unwrap();
    let event: Value = serde_json::from_str(&event).unwrap();
    assert_eq!((&event["event"], &event["exit_code"]), (&"done".into(), &0.into()));
    assert_eq!(env.task(0)["status"], "completed");
    // This waits until the lock is free, and so for the end of that run.
    env.run(["add", "after"]).success();
    assert!(env.read(".harness/run.log").contains("Completed [task-001]"));
}

#[test]
fn changes_of_the_user_are_set_aside_and_put_back_where_they_fit() {
    let env = world();
    env.write("a", "before\n").write("b", "before\n").git(["add", "a", "b"]);
    env.git(["commit", "--quiet", "-m", "a and b"]);
    env.write("a", "mine\n").write("new.txt", "new\n");
    add(&env, "grep -q before a && echo agent > b", "grep -q agent b", &[]);
    env.run(["run", "--agent", "shell"]).code(5).stderr_contains("--allow-dirty");
    let ran = env.run(["run", "--agent", "shell", "--allow-dirty"]).success();
    assert!(ran.errors().contains("your changes are kept in refs/harness/rescue/user/"));
    assert_eq!(
        (env.read("a"), env.read("b"), env.read("new.txt")),
        ("mine\n".into(), "agent\n".into(), "new\n".into())
    );
    assert_eq!(env.git(["show", "--format=", "--name-only", "HEAD"]), "b");
    // If both changed the same file, the user's version is set aside and named.
    add(&env, "echo agent > a", "grep -q agent a", &[]);
    env.run(["run", "--agent", "shell", "--allow-dirty"])
        .success()
        .stderr_contains("harness rescue show user/");
    assert_eq!(env.read("a"), "agent\n");
    env.run(["rescue", "show"]).success().stdout_contains("mine");
}

#[test]
fn a_file_of_the_user_that_the_agent_changed_is_put_back_and_said() {
    let env = world();
    env.write("mine.txt", "mine");
    let more = ["--max-attempts", "1", "--cleanup", "exit 2"];
    add(&env, "echo agent > mine.txt", "false", &more);
    env.run(["run", "--agent", "shell"]).code(4);
    assert_eq!(env.read("mine.txt"), "mine");
    let log = log(&env).join("\n");
    assert!(log.contains("WARN [task-001] put back as before the claim: mine.txt"), "{log}");
    assert!(log.contains("WARN [task-001] the cleanup failed (exit code 2)"), "{log}");
}
