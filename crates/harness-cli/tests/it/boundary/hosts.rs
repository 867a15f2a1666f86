//! Hosts that do not answer, hosts whose root is gone, and leases that keep their length.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::{
    daemon::world,
    environment::TestEnvironment,
    objective::stage::{Going, bare_agent, fifo, hear},
};

#[test]
fn x_l1_a_run_beside_a_stopped_one_fails_at_once() {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    env.run(["init"]).success();
    env.run(["add", "one", "--validate", "true"]).success();
    let up = fifo(&env, "up");
    let command = bare_agent(&env, &format!("echo up > {}; exec sleep 600", up.display()));
    let run = Going::start(&env, &["run", "--agent-command", &command]);
    assert_eq!(hear(&up), "up");
    run.signal(Signal::SIGSTOP);
    let start = Instant::now();
    let ran = env.run(["run", "--agent-command", "true"]);
    let took = start.elapsed();
    run.signal(Signal::SIGCONT);
    run.signal(Signal::SIGTERM);
    run.end();
    ran.stderr_contains("Another harness session is active");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn x_l1_a_stopped_daemon_is_not_waited_for_either() {
    let env = world();
    env.run(["add", "one", "--validate", "true"]).success();
    let pid: i32 = env.run(["daemon", "start"]).success().raw().parse().unwrap();
    let signal = |signal| nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    signal(Signal::SIGSTOP);
    let start = Instant::now();
    let ran = env.run(["run", "--agent-command", "true"]);
    let took = start.elapsed();
    signal(Signal::SIGCONT);
    ran.stderr_contains("Another daemon is already running");
    assert!(took < Duration::from_secs(20), "{took:?}");
    // The host receives the earlier request only now, so it is ended.
    env.kill_host();
}

#[test]
fn x_l8_a_daemon_whose_root_was_replaced_leaves() {
    let env = world();
    let before: u32 = env.run(["daemon", "start"]).success().raw().parse().unwrap();
    fs::remove_dir_all(env.root()).unwrap();
    fs::create_dir(env.root()).unwrap();
    env.git(["init", "--quiet"]);
    env.git(["commit", "--quiet", "--allow-empty", "--message", "another"]);
    let plan = json!({ "goal": "g", "tasks": { "a": { "description": "A" } } });
    env.write("plan.md", format!("```json\n{plan}\n```\n"));
    env.run(["plan", "import", "--file", "plan.md"]).success().stdout("Plan imported (1 task)");
    env.run(["task", "claim"]).success().stdout_contains("\"a\"");
    let after: u32 = env.run(["daemon", "status"]).success().raw().parse().unwrap();
    assert_ne!(before, after);
    let start = Instant::now();
    while fs::read_to_string(format!("/proc/{before}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
    {
        assert!(start.elapsed() < Duration::from_secs(60), "the old one is still there");
        std::thread::yield_now();
    }
    env.run(["task", "complete", "--id", "a"]).success();
    env.run(["shutdown"]).success();
}

/// Returns a library that sets the clock of a program an hour ahead; `None` without a compiler.
fn clock_ahead(env: &TestEnvironment) -> Option<PathBuf> {
    const SOURCE: &str = "#define _GNU_SOURCE\n\
        #include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n\
        int clock_gettime(clockid_t id, struct timespec *t) {\n\
            int r = syscall(SYS_clock_gettime, id, t);\n\
            if (id == CLOCK_REALTIME) t->tv_sec += 3600;\n\
            return r;\n\
        }\n";
    let (source, library) = (env.home().join("ahead.c"), env.home().join("ahead.so"));
    fs::write(&source, SOURCE).unwrap();
    let mut compiler = env.program("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    let compiled = compiler.output().is_ok_and(|output| output.status.success());
    compiled.then_some(library)
}

#[test]
fn x_l3_a_claim_of_a_live_host_is_alive_whatever_the_clock_says() {
    let env = world();
    let Some(library) = clock_ahead(&env) else {
        eprintln!("there is no cc: a clock that is ahead is not tried");
        return;
    };
    env.run(["add", "one", "--validate", "true"]).success();
    env.run(["task", "claim", "--worker", "one"]).success().stdout_contains("task-001");
    // This claim uses the files and a clock by which the lease ended long ago.
    let ahead = || {
        let mut command = env.harness(["task", "claim", "--worker", "two"]);
        command.env("HARNESS_DAEMON", "off").env("LD_PRELOAD", &library);
        env.ran(command.output().unwrap()).success()
    };
    ahead().stdout(r#"{"task":null}"#);
    assert_eq!((&env.task(0)["claimed_by"], &env.task(0)["attempts"]), (&"one".into(), &0.into()));
    // When no process measures the lease any more, the clock counts.
    assert!(env.kill_host());
    ahead().stdout_contains("task-001");
    assert_eq!((&env.task(0)["claimed_by"], &env.task(0)["attempts"]), (&"two".into(), &1.into()));
}

#[test]
fn r8_a_lease_of_a_second_lasts_a_second() {
    let env = TestEnvironment::with_git();
    env.run(["init"]).success();
    env.run(["add", "one", "--validate", "true"]).success();
    let text = env.read("harness-tasks.json");
    let mut ledger: serde_json::Value = serde_json::from_str(&text).unwrap();
    ledger["tasks"][0]["timeout_seconds"] = 1.into();
    env.write("harness-tasks.json", ledger.to_string());
    // The test waits until late in a second, so that a lease that is cut to whole seconds would end
    // at once.
    let fraction = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        now.subsec_millis()
    };
    while fraction() < 900 {
        std::thread::yield_now();
    }
    env.run(["task", "claim", "--worker", "one"]).success();
    let claimed = Instant::now();
    let second = env.run(["task", "claim", "--worker", "two"]).success().raw().to_owned();
    if claimed.elapsed() < Duration::from_secs(1) {
        assert_eq!(second, r#"{"task":null}"#);
    }
    assert!(env.task(0)["attempts"] == 0 || claimed.elapsed() >= Duration::from_secs(1));
}
