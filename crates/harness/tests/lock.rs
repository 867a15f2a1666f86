//! The lock of a state root against other processes of harness, against scripts of the published
//! protocol, and against files that others may leave in `/tmp`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod lock_shell;
mod lock_soak;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use harness::{
    home::root_hash,
    store::lock::{DirectoryLock, LockError, Obstacle, StateLock, Wait, Warning},
};

/// A state root whose traces in `/tmp` are removed with it.
struct Root {
    folder: tempfile::TempDir,
}

impl Root {
    fn new() -> Root {
        Root { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap()
    }

    fn lock(&self) -> PathBuf {
        format!("/tmp/harness-{}.lock", root_hash(&self.path())).into()
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        format!("{}{suffix}", self.lock().display()).into()
    }

    /// Creates a lock as a script leaves it.
    fn signed_by(&self, pid: u32) {
        fs::create_dir(self.lock()).unwrap();
        fs::write(self.lock().join("pid"), format!("{pid}\n")).unwrap();
    }

    /// Returns everything in `/tmp` for this root.
    fn traces(&self) -> Vec<PathBuf> {
        let prefix = format!("harness-{}.", root_hash(&self.path()));
        let entries = fs::read_dir("/tmp").unwrap().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
            .map(|entry| entry.path())
            .collect()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for path in self.traces() {
            let is_dir = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            let _ = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

/// A process that lives until the test ends.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        // It ends with its standard input, in case this test is killed.
        Sleeper(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn dead_pid() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn age(path: &Path, by: Duration) {
    let then = std::time::SystemTime::now() - by;
    let since = then.duration_since(std::time::UNIX_EPOCH).unwrap();
    let then = rustix::fs::Timespec { tv_sec: since.as_secs() as i64, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: then, last_modification: then };
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags).unwrap();
}

fn refusal(root: &Root) -> Obstacle {
    let refused = |wait| match StateLock::acquire(&root.path(), wait) {
        Err(LockError::Refused { obstacle, .. }) => obstacle,
        other => panic!("{other:?}"),
    };
    let at_once = refused(Wait::No);
    assert_eq!(refused(Wait::For(Duration::from_secs(60))), at_once);
    at_once
}

#[test]
fn a_held_lock_says_who_holds_it_and_a_dropped_one_leaves_only_the_guard() {
    let root = Root::new();
    let held = StateLock::acquire(&root.path(), Wait::No).unwrap();
    assert_eq!(held.warnings, []);
    assert!(held.guard.still_held());
    assert_eq!(fs::metadata(root.lock()).unwrap().permissions().mode() & 0o777, 0o700);
    let pid = std::process::id();
    assert_eq!(fs::read_to_string(root.lock().join("pid")).unwrap(), format!("{pid}\n"));

    let busy = StateLock::acquire(&root.path(), Wait::No).unwrap_err();
    assert_eq!(busy.to_string(), format!("Another harness session is active (pid={pid})"));
    drop(held);
    assert_eq!(root.traces(), [root.beside(".guard")]);
    let mode = fs::metadata(root.beside(".guard")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_wait_ends_at_its_time_with_the_holders_pid() {
    let root = Root::new();
    let _held = StateLock::acquire(&root.path(), Wait::No).unwrap();
    let started = Instant::now();
    let wait = Wait::For(Duration::from_millis(100));
    std::thread::scope(|scope| {
        let waits: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| StateLock::acquire(&root.path(), wait).unwrap_err()))
            .collect();
        for wait in waits {
            let error = wait.join().unwrap().to_string();
            let pid = std::process::id();
            assert_eq!(error, format!("Another harness session is active (pid={pid})"));
        }
    });
    assert!(started.elapsed() >= Duration::from_millis(100));
    assert_eq!(root.traces().len(), 2, "{:?}", root.traces());
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_let_go() {
    let root = Root::new();
    let held = StateLock::acquire(&root.path(), Wait::No).unwrap();
    let path = root.path();
    let waiter =
        std::thread::spawn(move || StateLock::acquire(&path, Wait::For(Duration::from_secs(60))));
    drop(held);
    assert!(waiter.join().unwrap().unwrap().guard.still_held());
}

#[test]
fn the_lock_of_a_dead_process_is_reclaimed_with_a_warning_and_leftovers_go() {
    let root = Root::new();
    let dead = dead_pid();
    for wait in [Wait::No, Wait::For(Duration::ZERO), Wait::For(Duration::from_secs(60))] {
        root.signed_by(dead);
        let old = root.beside(&format!(".new.{dead}.0"));
        let recent = root.beside(&format!(".done.{dead}.1"));
        fs::create_dir(&old).unwrap();
        fs::create_dir_all(&recent).unwrap();
        age(&old, Duration::from_secs(60));
        let held = StateLock::acquire(&root.path(), wait).unwrap();
        assert_eq!(held.warnings, [Warning::Reclaimed { pid: Some(dead) }]);
        assert!(!old.exists());
        assert!(recent.exists());
    }
}

#[test]
fn a_lock_without_a_pid_is_held_for_two_seconds() {
    let root = Root::new();
    fs::create_dir(root.lock()).unwrap();
    let busy = StateLock::acquire(&root.path(), Wait::No).unwrap_err();
    assert_eq!(busy.to_string(), "Another harness session is active (pid=unknown)");
    fs::write(root.lock().join("pid"), "").unwrap();
    StateLock::acquire(&root.path(), Wait::No).unwrap_err();
    age(&root.lock(), Duration::from_secs(3));
    let held = StateLock::acquire(&root.path(), Wait::No).unwrap();
    assert_eq!(held.warnings, [Warning::Reclaimed { pid: None }]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_pid_that_was_given_to_a_later_process_does_not_hold() {
    let sleeper = Sleeper::new();
    let root = Root::new();
    root.signed_by(sleeper.0.id());
    // A script's lock that is as old as the process is valid.
    let busy = StateLock::acquire(&root.path(), Wait::No).unwrap_err();
    assert!(busy.to_string().ends_with(&format!("(pid={})", sleeper.0.id())), "{busy}");
    // A lock that is an hour older belonged to another process with the same pid.
    age(&root.lock().join("pid"), Duration::from_secs(3600));
    let held = StateLock::acquire(&root.path(), Wait::No).unwrap();
    assert_eq!(held.warnings, [Warning::Reclaimed { pid: Some(sleeper.0.id()) }]);
}

#[cfg(target_os = "linux")]
#[test]
fn our_own_lock_tells_processes_apart_by_start_boot_and_host() {
    let sleeper = Sleeper::new();
    let pid = sleeper.0.id();
    let root = Root::new();
    let held = StateLock::acquire(&root.path(), Wait::No).unwrap();
    let text = fs::read(root.lock().join("owner")).unwrap();
    let ours: serde_json::Value = serde_json::from_slice(&text).unwrap();
    drop(held);

    let attempt = |field: &str, value: serde_json::Value| {
        root.signed_by(pid);
        let mut owner = ours.clone();
        owner["pid"] = pid.into();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let start = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap();
        owner["start_ticks"] = start.parse::<u64>().unwrap().into();
        owner[field] = value;
        fs::write(root.lock().join("owner"), owner.to_string()).unwrap();
        let result = StateLock::acquire(&root.path(), Wait::No).map(|held| held.warnings);
        let _ = fs::remove_dir_all(root.lock());
        result
    };
    let reclaimed = [Warning::Reclaimed { pid: Some(pid) }];
    assert!(attempt("version", 1.into()).is_err());
    assert_eq!(attempt("start_ticks", 1.into()).unwrap(), reclaimed);
    assert_eq!(attempt("boot_id", "another".into()).unwrap(), reclaimed);
    match attempt("host", "another".into()) {
        Err(LockError::Busy { pid: Some(_), host: Some(host) }) => assert_eq!(host, "another"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_symlink_is_refused_and_what_is_behind_it_is_not_touched() {
    let root = Root::new();
    let target = tempfile::tempdir().unwrap();
    symlink(target.path(), root.lock()).unwrap();
    assert_eq!(refusal(&root), Obstacle::Symlink);
    fs::remove_file(root.lock()).unwrap();

    let file = target.path().join("file");
    fs::write(&file, "").unwrap();
    let _ = fs::remove_file(root.beside(".guard"));
    symlink(&file, root.beside(".guard")).unwrap();
    assert_eq!(refusal(&root), Obstacle::Symlink);
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 1);
}

#[test]
fn a_file_and_a_pipe_in_the_place_of_the_lock_are_refused() {
    let root = Root::new();
    fs::write(root.lock(), "").unwrap();
    assert_eq!(refusal(&root), Obstacle::NotADirectory);
    fs::remove_file(root.lock()).unwrap();
    let _ = fs::remove_file(root.beside(".guard"));
    assert!(Command::new("mkfifo").arg(root.beside(".guard")).status().unwrap().success());
    assert_eq!(refusal(&root), Obstacle::NotAFile);
}

#[test]
fn a_lock_of_another_user_costs_a_warning_and_no_service() {
    let root = Root::new();
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root can give a directory away: not tried");
        return;
    }
    let other = Some(rustix::fs::Uid::from_raw(65534));
    fs::create_dir(root.lock()).unwrap();
    rustix::fs::chown(root.lock(), other, None).unwrap();
    let first = StateLock::acquire(&root.path(), Wait::No).unwrap();
    let squatted = Warning::Squatted { path: root.lock(), uid: 65534 };
    assert_eq!(first.warnings, [squatted]);
    assert!(first.guard.still_held());
    for wait in [Wait::No, Wait::For(Duration::from_millis(20))] {
        let busy = StateLock::acquire(&root.path(), wait).unwrap_err();
        assert!(matches!(busy, LockError::Busy { pid: None, host: None }), "{busy:?}");
    }
    drop(first);
    fs::remove_dir(root.lock()).unwrap();
    let _ = fs::remove_file(root.beside(".guard"));
    // The kind of the file does not matter.
    for make in [|path: &Path| fs::write(path, ""), |path: &Path| symlink("/", path)] {
        make(&root.beside(".guard")).unwrap();
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(rustix::fs::CWD, root.beside(".guard"), other, None, flags).unwrap();
        let again = StateLock::acquire(&root.path(), Wait::No).unwrap();
        assert_eq!(again.warnings, [], "it was told");
        fs::remove_file(root.beside(".guard")).unwrap();
    }
    assert!(!root.lock().exists());
}

#[test]
fn a_holder_without_a_shared_tmp_is_waited_for_and_then_named() {
    let root = Root::new();
    drop(StateLock::acquire(&root.path(), Wait::No).unwrap());
    let file = fs::File::open(root.path().join(".harness/lock")).unwrap();
    file.lock().unwrap();
    for wait in [Wait::No, Wait::For(Duration::from_millis(20))] {
        let error = StateLock::acquire(&root.path(), wait).unwrap_err();
        assert!(error.to_string().contains("a process that can't be seen"), "{error}");
    }
    let path = root.path();
    let waiter =
        std::thread::spawn(move || StateLock::acquire(&path, Wait::For(Duration::from_secs(60))));
    drop(file);
    waiter.join().unwrap().unwrap();
}

#[test]
fn the_file_beneath_must_be_a_file_of_ours() {
    let root = Root::new();
    fs::create_dir(root.path().join(".harness")).unwrap();
    symlink("/dev/null", root.path().join(".harness/lock")).unwrap();
    let error = StateLock::acquire(&root.path(), Wait::No).unwrap_err();
    assert!(error.to_string().starts_with(".harness/lock is a symbolic link"), "{error}");
    assert!(!root.lock().exists());
}

#[test]
fn a_directory_taken_away_is_noticed() {
    let root = Root::new();
    let held = DirectoryLock::acquire(&root.path(), Wait::No).unwrap().guard;
    fs::remove_dir_all(root.lock()).unwrap();
    assert!(!held.still_held());
    root.signed_by(1);
    assert!(!held.still_held());
    drop(held);
    assert!(root.lock().exists());
}
