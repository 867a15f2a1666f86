//! Leftovers beside the lock of processes that died.

use std::{
    ffi::OsStr,
    fs,
    io::{ErrorKind, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    time::Duration,
};

use rustix::fs::{FileType, Mode, OFlags};

use super::holder;
use crate::process::life::{self, Life};

/// A process in another container, whose pid has no meaning here, has finished with it by then.
const LEFTOVER_AGE: Duration = Duration::from_secs(10);
/// A root that is in use has its guard created again.
const GUARD_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The longest path of a root that a guard contains.
const ROOT_BYTES_MAX: u64 = 8192;

/// Removes the leftovers. This reads all of `/tmp`, so only a process that found a dead lock does
/// it. Nothing depends on it, so errors are ignored.
pub(super) fn sweep(lock: &Path) {
    let (Some(folder), Some(name)) = (lock.parent(), lock.file_name()) else {
        return;
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let found = entry.file_name();
        if found.to_str().is_some_and(is_guard) {
            sweep_guard(&entry.path());
            continue;
        }
        let Some(rest) = found.to_str().zip(name.to_str()).and_then(|(f, n)| f.strip_prefix(n))
        else {
            continue;
        };
        if leftover_pid(rest).is_some_and(|pid| life::life(pid) == Life::Dead)
            && entry.metadata().is_ok_and(|found| found.is_dir())
            && rustix::fs::stat(entry.path()).is_ok_and(|stat| {
                stat.st_uid == rustix::process::geteuid().as_raw()
                    && holder::modified(&stat).is_some_and(|at| holder::distance(at) > LEFTOVER_AGE)
            })
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes the guards of roots that are gone, and those that have not been used for long. This reads
/// all of `/tmp`, so only commands do it that work for a long time.
pub fn sweep_guards() {
    sweep_guards_in(Path::new("/tmp"));
}

fn sweep_guards_in(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_guard) {
            sweep_guard(&entry.path());
        }
    }
}

/// Matches `harness-<16 digits>.lock.guard`, of any root.
fn is_guard(name: &str) -> bool {
    let hash = name.strip_prefix("harness-").and_then(|rest| rest.strip_suffix(".lock.guard"));
    hash.is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Removes the guard of a root that is gone or has not been used for long. A process that waits at it
/// notices the removal and waits at the next one.
fn sweep_guard(path: &Path) {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(guard) = rustix::fs::open(path, flags, Mode::empty()) else { return };
    let Ok(stat) = rustix::fs::fstat(&guard) else { return };
    let is_ours = stat.st_uid == rustix::process::geteuid().as_raw()
        && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let is_old = holder::modified(&stat).is_some_and(|at| holder::distance(at) > GUARD_AGE);
    let guard = fs::File::from(guard);
    if is_ours && (is_old || is_of_no_root(&guard)) && guard.try_lock().is_ok() {
        _ = fs::remove_file(path);
    }
}

/// Returns whether the guard names a root that does not exist.
fn is_of_no_root(guard: &fs::File) -> bool {
    let mut root = Vec::new();
    let read = guard.take(ROOT_BYTES_MAX).read_to_end(&mut root);
    let root = Path::new(OsStr::from_bytes(&root));
    let found = || root.symlink_metadata().map_err(|why| why.kind());
    read.is_ok() && root.is_absolute() && found().is_err_and(|kind| kind == ErrorKind::NotFound)
}

/// Returns the pid in `.new.<pid>.<n>`, `.stale.<pid>.<n>`, `.done.<pid>.<n>` or a script's
/// `.stale.<pid>`.
fn leftover_pid(rest: &str) -> Option<u32> {
    let mut parts = rest.strip_prefix('.')?.split('.');
    let kind = parts.next()?;
    let pid = parts.next()?.parse().ok()?;
    matches!(kind, "new" | "stale" | "done").then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_guard_goes_unless_somebody_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("harness-0123456789abcdef.lock");
        let guard = |hash: &str| {
            let path = folder.path().join(format!("harness-{hash}.lock.guard"));
            let file = fs::File::create(&path).unwrap();
            (path, file)
        };
        let old = std::time::SystemTime::now() - GUARD_AGE * 2;
        let (unused, file) = guard("00000000000000aa");
        file.set_modified(old).unwrap();
        drop(file);
        let (held, file) = guard("00000000000000bb");
        file.set_modified(old).unwrap();
        file.lock().unwrap();
        let (new, _) = guard("00000000000000cc");
        sweep(&lock);
        assert!(!unused.exists() && held.exists() && new.exists());
    }

    #[test]
    fn the_guard_of_a_root_that_is_gone_goes_unless_somebody_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let guard = |hash: &str, root: &str| {
            let path = folder.path().join(format!("harness-{hash}.lock.guard"));
            fs::write(&path, root).unwrap();
            path
        };
        let gone = folder.path().join("gone").display().to_string();
        let swept = guard("00000000000000aa", &gone);
        let held = guard("00000000000000bb", &gone);
        let kept = [
            guard("00000000000000cc", &folder.path().display().to_string()),
            guard("00000000000000dd", ""),
            guard("00000000000000ee", "no path"),
        ];
        let holder = fs::File::open(&held).unwrap();
        holder.lock().unwrap();
        sweep_guards_in(folder.path());
        assert!(!swept.exists() && held.exists());
        assert!(kept.iter().all(|path| path.exists()));
    }

    #[test]
    fn only_names_of_leftovers_are_swept() {
        assert_eq!(leftover_pid(".new.12.3"), Some(12));
        assert_eq!(leftover_pid(".stale.12"), Some(12));
        assert_eq!(leftover_pid(".done.7.0"), Some(7));
        for other in ["", ".guard", ".new", ".new.x.1", ".sock.12.3"] {
            assert_eq!(leftover_pid(other), None, "{other}");
        }
    }
}
