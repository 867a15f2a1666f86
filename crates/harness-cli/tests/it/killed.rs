//! Kills the real binary with SIGKILL at every step of a write: no acknowledged change is ever
//! lost, and the next process finds a ledger that works.
//!
//! The test is the tracer: it stops the program at each system call that touches a file and ends it
//! there, first before the call, then after it. That is what `strace -e inject` does, without
//! needing strace.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::{
    io::Read,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use nix::{
    libc,
    sys::{
        ptrace,
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::Pid,
};
use serde_json::Value;

use crate::environment::TestEnvironment;

/// Calls that change a disk, or the holder of a lock.
const TOUCHING: [libc::c_long; 16] = [
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_openat,
    libc::SYS_ftruncate,
    libc::SYS_flock,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    After,
}

struct Ended {
    /// Whether it was killed. Otherwise it ended by itself before the selected call.
    killed: bool,
    stdout: String,
}

/// Runs the program and kills it at the `nth` touching call.
#[allow(unsafe_code, reason = "to be traced, a process has to say so between fork and exec")]
#[allow(clippy::zombie_processes, reason = "`trace` waits for its end")]
fn run_and_kill(mut command: Command, nth: usize, when: When) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // SAFETY: `traceme` is one system call and allocates nothing.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let mut child = command.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let killed = trace(pid, nth, when);
    let mut said = String::new();
    stdout.read_to_string(&mut said).unwrap();
    Ended { killed, stdout: said }
}

fn trace(pid: Pid, nth: usize, when: When) -> bool {
    let stopped = waitpid(pid, None).unwrap();
    assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGTRAP)), "{stopped:?}");
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(pid, options).unwrap();
    let (mut seen, mut inside) = (0, false);
    let mut pending = None;
    loop {
        ptrace::syscall(pid, pending.take()).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::PtraceSyscall(_) => {
                let entering = touching_call(pid);
                seen += usize::from(entering == Some(true));
                let leaving = entering.is_none() && std::mem::replace(&mut inside, false);
                inside |= entering == Some(true);
                let now = match when {
                    When::Before => entering == Some(true),
                    When::After => leaving,
                };
                if now && seen == nth {
                    nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
                    let end = waitpid(pid, None).unwrap();
                    assert!(matches!(end, WaitStatus::Signaled(_, Signal::SIGKILL, _)), "{end:?}");
                    return true;
                }
            }
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Stopped(_, signal) => pending = Some(signal),
            WaitStatus::Exited(_, _) => return false,
            WaitStatus::Signaled(_, signal, _) => panic!("ended by {signal}"),
            _ => {}
        }
    }
}

/// Returns whether the process enters a call that touches something; `None` when it leaves a call.
#[allow(unsafe_code, reason = "the kernel's answer is a union, told apart by its first field")]
fn touching_call(pid: Pid) -> Option<bool> {
    let info = ptrace::syscall_info(pid).unwrap();
    if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return None;
    }
    // SAFETY: `op` shows that this member was filled in.
    let number = unsafe { info.u.entry.nr };
    Some(TOUCHING.iter().any(|call| u64::try_from(*call).unwrap() == number))
}

/// Kills `command` at every call, each time in a new world of `prepare`, and passes the result to
/// `check`. Returns the number of places.
fn kill_everywhere(
    prepare: impl Fn() -> TestEnvironment,
    args: &[&str],
    check: impl Fn(&TestEnvironment, &Ended),
) -> usize {
    let mut places = 0;
    for when in [When::Before, When::After] {
        for nth in 1.. {
            let env = prepare();
            let ended = run_and_kill(env.harness(args), nth, when);
            let ledger: Value = serde_json::from_str(&env.read("harness-tasks.json"))
                .unwrap_or_else(|why| panic!("{args:?} killed {when:?} call {nth}: {why}"));
            assert!(ledger["tasks"].is_array());
            check(&env, &ended);
            if !ended.killed {
                break;
            }
            places += 1;
        }
    }
    places
}

fn ledger(env: &TestEnvironment) -> Value {
    serde_json::from_str(&env.read("harness-tasks.json")).unwrap()
}

fn lines(env: &TestEnvironment, of: &str) -> usize {
    env.read("harness-progress.txt").lines().filter(|line| line.contains(of)).count()
}

fn with_one_task() -> TestEnvironment {
    let env = TestEnvironment::new().variable("HARNESS_WORKER_ID", "w");
    env.run(["init", "--yes"]).success();
    env.run(["add", "one"]).success();
    env
}

#[test]
fn add_killed_at_every_write_loses_nothing_that_it_acknowledged() {
    let places = kill_everywhere(with_one_task, &["add", "two"], |env, ended| {
        let tasks = ledger(env)["tasks"].as_array().unwrap().len();
        if ended.stdout.contains("task-002") {
            assert_eq!(tasks, 2, "it said that task-002 is there");
        }
        env.run(["add", "after"]).success();
        let now = ledger(env);
        let ids: Vec<_> = now["tasks"].as_array().unwrap().iter().map(|t| &t["id"]).collect();
        assert_eq!(ids.len(), tasks + 1, "{ids:?}");
    });
    assert!(places > 20, "only {places} places: the tracer does not see the writes");
}

#[test]
fn claim_killed_at_every_write_is_whole_or_not_at_all() {
    let places = kill_everywhere(with_one_task, &["task", "claim"], |env, ended| {
        let before = ledger(env);
        let claimed = before["tasks"][0]["status"] == "in_progress";
        assert!(claimed || ended.stdout.is_empty(), "it said that the task is claimed");
        // The same worker asks again and holds the task in either case, under one epoch.
        let again = env.run(["task", "claim"]).success().json();
        assert_eq!(again["task"]["id"], "task-001");
        assert_eq!(again["is_retry"], claimed);
        assert_eq!(again["task"]["epoch"], 1);
        assert_eq!(lines(env, "Starting [task-001]"), 1);
    });
    assert!(places > 20, "only {places} places");
}

#[test]
fn complete_killed_at_every_write_is_said_exactly_once() {
    let prepare = || {
        let env = with_one_task();
        env.run(["task", "claim"]).success();
        env
    };
    let places =
        kill_everywhere(prepare, &["task", "complete", "--id", "task-001"], |env, ended| {
            let done = ledger(env)["tasks"][0]["status"] == "completed";
            assert!(done || ended.stdout.is_empty(), "it said that the task is completed");
            env.run(["task", "complete", "--id", "task-001"]).success();
            // Any later change finishes the log.
            env.run(["add", "after"]).success();
            assert_eq!(lines(env, "Completed [task-001]"), 1);
            assert_eq!(ledger(env)["tasks"][0]["attempts"], 1);
        });
    assert!(places > 20, "only {places} places");
}
