//! Commands in the sandbox of an agent, such as Codex's, which forbids sockets. They use the files.

use std::{
    ffi::{CStr, CString, OsStr},
    io::ErrorKind,
    os::unix::{ffi::OsStringExt as _, process::CommandExt as _},
};

use nix::libc;

use crate::environment::{Ran, TestEnvironment};

/// Runs the program in a sandbox in which the kernel answers EPERM to every connect, bind and
/// setsockopt.
#[allow(unsafe_code, reason = "a filter of system calls is set between fork and exec")]
fn sandboxed<A: AsRef<OsStr>>(env: &TestEnvironment, args: impl IntoIterator<Item = A>) -> Ran {
    let mut command = env.harness(args);
    // SAFETY: `forbid_sockets` is two system calls and allocates nothing.
    unsafe { command.pre_exec(forbid_sockets) };
    env.ran(command.output().unwrap())
}

#[allow(unsafe_code, reason = "nix knows no seccomp")]
fn forbid_sockets() -> std::io::Result<()> {
    const fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let mut filter = [
        // The number of the call is the first field of the filter's input.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(IS, 3, 0, libc::SYS_connect as u32),
        step(IS, 2, 0, libc::SYS_bind as u32),
        step(IS, 1, 0, libc::SYS_setsockopt as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program lives until the calls return, and the kernel copies it.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if set { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Runs the program without sockets and with a read-only git directory. Returns `None` if the tests
/// do not run as root, because only root can mount.
#[allow(unsafe_code, reason = "a mount is made between fork and exec")]
fn without_git<A: AsRef<OsStr>>(
    env: &TestEnvironment,
    args: impl IntoIterator<Item = A>,
) -> Option<Ran> {
    let git = CString::new(env.root().join(".git").into_os_string().into_vec()).unwrap();
    let mut command = env.harness(args);
    // SAFETY: both are a few system calls and allocate nothing.
    unsafe { command.pre_exec(move || make_read_only(&git).and_then(|()| forbid_sockets())) };
    match command.output() {
        Err(why) if why.kind() == ErrorKind::PermissionDenied => None,
        output => Some(env.ran(output.unwrap())),
    }
}

#[allow(unsafe_code, reason = "the mounts of nix are a feature that nothing else needs")]
fn make_read_only(folder: &CStr) -> std::io::Result<()> {
    let (path, none) = (folder.as_ptr(), std::ptr::null());
    let private = libc::MS_REC | libc::MS_PRIVATE;
    let read_only = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY;
    // SAFETY: the texts live until the calls return. The mounts are those of the new process alone.
    let made = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, private, none.cast()) == 0
            && libc::mount(path, path, none, libc::MS_BIND, none.cast()) == 0
            && libc::mount(none, path, none, read_only, none.cast()) == 0
    };
    if made { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The commit is left to the user, and uncommitted work is still judged.
#[test]
fn a_worker_completes_a_task_where_git_is_read_only() {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    env.run(["init"]).success();
    env.run(["add", "one", "--validate", "grep 1 one"]).success();
    let Some(claimed) = without_git(&env, ["task", "claim"]) else { return };
    claimed.success().stdout_contains("task-001");
    env.write("one", "1\n");
    let complete = ["task", "complete", "--id", "task-001"];
    without_git(&env, complete).unwrap().success();
    assert_eq!(env.task(0)["status"], "completed");
    assert!(env.git(["status", "--short"]).contains("?? one"), "nothing was committed or staged");
}

fn world() -> TestEnvironment {
    let env = TestEnvironment::with_git().with_daemon().variable("HARNESS_WORKER_ID", "w");
    env.run(["init"]).success();
    env.run(["add", "one", "--validate", "true"]).success();
    env
}

#[test]
fn a_worker_works_on_the_files_where_no_daemon_can_be_started() {
    let env = world();
    sandboxed(&env, ["task", "claim"]).success().stdout_contains("task-001");
    let step = ["task", "checkpoint", "--id", "task-001", "--step", "1", "--total", "1", "done"];
    sandboxed(&env, step).success();
    sandboxed(&env, ["get-state"]).success().stdout_contains("running");
    sandboxed(&env, ["task", "complete", "--id", "task-001"]).success();
    assert_eq!(env.task(0)["status"], "completed");
    assert!(!env.exists(".harness/daemon.log"), "none was tried");
    sandboxed(&env, ["ping"]).code(1).stderr_contains("a sandbox forbids it");
}

#[test]
fn a_worker_works_beside_a_daemon_that_it_can_not_reach() {
    let env = world();
    env.run(["daemon", "start"]).success();
    sandboxed(&env, ["task", "claim"]).success().stdout_contains("task-001");
    let step = ["task", "checkpoint", "--id", "task-001", "--step", "1", "--total", "1", "done"];
    env.run(step).success();
    sandboxed(&env, ["task", "complete", "--id", "task-001"]).success();
    env.run(["get-state"]).success().stdout_contains("completed");
    sandboxed(&env, ["ask", "Which?"])
        .code(1)
        .stderr_contains("the sandbox does not let this command");
    env.run(["shutdown"]).success();
}

#[test]
fn the_agent_of_a_run_is_told_of_its_tools() {
    let env = world();
    sandboxed(&env, ["task", "claim"]).success();
    let before = env.read("harness-tasks.json");
    let env = env.variable("HARNESS_RUN_ID", "r").variable("HARNESS_TASK_ID", "task-001");
    let told = |args: &[&str], tool: &str| {
        let words = format!("call the tool `{tool}` of the MCP server `harness` instead");
        sandboxed(&env, args)
            .code(1)
            .stderr_contains("does not let this command connect")
            .stderr_contains(&words);
    };
    told(&["task", "checkpoint", "--step", "1", "--total", "1", "done"], "task_checkpoint");
    told(&["task", "renew"], "task_checkpoint");
    told(&["task", "complete"], "task_complete");
    told(&["task", "fail", "too hard"], "task_fail");
    told(&["add", "two"], "task_add");
    told(&["ask", "Which?"], "ask_user");
    assert_eq!(env.read("harness-tasks.json"), before);
    sandboxed(&env, ["status"]).success();
}
