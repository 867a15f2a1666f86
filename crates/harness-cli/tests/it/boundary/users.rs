//! Other users of the machine: their files in `/tmp` cause a warning at most.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, lchown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
};

use harness::home::root_hash;

use crate::environment::{Ran, TestEnvironment};

const NOBODY: u32 = 65534;

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A user whose folder in `/tmp` is not shared with others. Only root can act as one.
pub(super) struct User {
    pub(super) env: TestEnvironment,
    uid: u32,
}

impl User {
    pub(super) fn new(env: TestEnvironment) -> Self {
        let uid = 100_000 + std::process::id() * 4 + fresh();
        give(env.home().parent().unwrap(), uid);
        Self { env, uid }
    }

    pub(super) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ran {
        let mut command = self.env.harness(args);
        command.uid(self.uid).gid(self.uid);
        self.env.ran(command.output().unwrap())
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/harness-{}", self.uid))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        _ = self.env.kill_host();
        _ = fs::remove_dir_all(self.folder());
    }
}

fn fresh() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn give(path: &Path, uid: u32) {
    lchown(path, Some(uid), Some(uid)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), uid);
        }
    }
}

fn world() -> TestEnvironment {
    let env = TestEnvironment::with_git().with_daemon().without_variable("XDG_RUNTIME_DIR");
    let env = env.variable("HARNESS_WORKER_ID", "w");
    env.run(["init", "--no-ignore"]).success();
    env.run(["add", "one"]).success();
    env
}

#[test]
fn x_h7_the_daemon_starts_without_a_runtime_directory() {
    let env = world();
    if !is_root() {
        eprintln!("not root: the folder of this user in /tmp may be there already");
        env.run(["ping"]).success().stdout("ok");
        env.run(["shutdown"]).success();
        return;
    }
    let user = User::new(env);
    assert!(!user.folder().exists());
    user.run(["ping"]).success().stdout("ok");
    let made = fs::symlink_metadata(user.folder()).unwrap();
    assert_eq!((made.mode() & 0o777, made.uid()), (0o700, user.uid));
    user.run(["task", "claim"]).success().stdout_contains("task-001");
    user.run(["shutdown"]).success();
}

#[test]
fn x_h7_a_folder_that_others_can_use_is_not_used() {
    let env = world();
    if !is_root() {
        eprintln!("not root: only a folder that all users can write to is tried");
        let open = env.home().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let env = env.variable("HARNESS_SOCKET", open.join("s"));
        env.run(["ping"]).code(1).stderr_contains("can be written to by all users");
        return;
    }
    let user = User::new(env);
    for (owner, mode) in [(NOBODY, 0o777), (user.uid, 0o777)] {
        fs::create_dir(user.folder()).unwrap();
        fs::set_permissions(user.folder(), fs::Permissions::from_mode(mode)).unwrap();
        lchown(user.folder(), Some(owner), None).unwrap();
        user.run(["ping"]).success().stdout("ok");
        let named = user.env.read(".harness/socket");
        let own = user.env.root().join(".harness");
        assert!(Path::new(named.trim_end()).starts_with(own), "{named}");
        assert_eq!(fs::read_dir(user.folder()).unwrap().count(), 0);
        user.run(["shutdown"]).success();
        // Naming that place explicitly is refused.
        let socket = user.folder().join("s");
        let words = ["daemon".as_ref(), socket.as_os_str(), ".".as_ref()];
        user.run(words).code(5).stderr_contains("the socket's directory /tmp/harness-");
        fs::remove_dir(user.folder()).unwrap();
    }
    let open = user.env.home().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let socket = open.join("s");
    let words = ["daemon".as_ref(), socket.as_os_str(), ".".as_ref()];
    user.run(words).code(5).stderr_contains("can be written to by all users");
}

#[test]
fn x_m6_a_squatted_lock_costs_a_warning() {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    env.run(["init"]).success();
    let lock = PathBuf::from(format!("/tmp/harness-{}.lock", root_hash(env.root())));
    let guard = PathBuf::from(format!("{}.guard", lock.display()));
    if !is_root() {
        eprintln!("not root: nothing can be given to another user; a file of our own is refused");
        fs::write(&lock, "").unwrap();
        env.run(["add", "one"]).code(1).stderr_contains("is not a directory");
        fs::remove_file(&lock).unwrap();
        return;
    }
    let squat = |path: &Path, is_directory: bool| {
        _ = fs::remove_file(path);
        if is_directory {
            fs::create_dir(path).unwrap();
        } else {
            fs::write(path, "").unwrap();
        }
        lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    };
    let warned = |ran: Ran| ran.success().stderr_contains("WARN: the lock /tmp/harness-");
    squat(&lock, true);
    warned(env.run(["add", "one", "--validate", "true"]));
    fs::remove_dir(&lock).unwrap();
    squat(&lock, false);
    warned(env.run(["task", "claim"]));
    fs::remove_file(&lock).unwrap();
    squat(&guard, false);
    warned(env.run(["task", "complete", "--id", "task-001"]));
    squat(&lock, true);
    warned(env.run(["add", "two", "--validate", "true"]));
    let ran = env.run(["run", "--agent-command", "sh -c 'echo x > f; echo TASK_COMPLETE'"]);
    ran.success().stderr_contains("WARN: the lock /tmp/harness-");
    assert_eq!(env.task(1)["status"], "completed");
    fs::remove_dir(&lock).unwrap();
    fs::remove_file(&guard).unwrap();
}
