//! The lock directory: scripts use `mkdir`, and we use a rename.
//!
//! The published sequence (make the directory, then write the pid; test, then move) lets two
//! processes in under contention. Here the directory is built aside with its pid and renamed into
//! place without replacing, so that it is never there unsigned. It is removed in the same way, by a
//! rename. A process that finds a dead lock moves it away under the [`turnstile`]
//! and checks, by inode, that it moved the directory that it judged.

use std::{
    fs,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use super::{
    Acquired, LockError, SETTLE, Wait, Warning,
    holder::{self, Owner, Seen, Verdict},
    io_error, leftovers, turnstile,
};
use crate::home::{Home, Inode};

const POLL: Duration = Duration::from_millis(1);
/// Checking the holder costs ten times as much as trying to take the lock, so it happens once per
/// this many tries.
const TRIES_PER_LOOK: u32 = 16;
const NAMES_MAX: u32 = 1000;

/// The paths of one lock.
#[derive(Debug, Clone)]
struct Site {
    lock: PathBuf,
    guard: PathBuf,
}

impl Site {
    fn of(root: &Path) -> Site {
        let home = Home::of(root);
        Site { guard: home.lock_guard(), lock: home.lock_directory() }
    }

    /// Returns a name beside the lock that no other call uses.
    fn aside(&self, kind: &str) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut name = self.lock.clone().into_os_string();
        name.push(format!(".{kind}.{pid}.{number}"));
        name.into()
    }
}

/// The first of the two locks of a state root, held until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    site: Site,
    /// Keeps the inode number from being reused even if the directory is deleted.
    _fd: OwnedFd,
    inode: Inode,
}

/// The result of trying to put our directory in place.
enum Placed {
    Done(DirectoryLock),
    Taken(Prepared),
    /// The file system has no rename that does not replace.
    Unsupported(Prepared),
}

impl DirectoryLock {
    /// Takes the lock. `root` must be canonical.
    pub fn acquire(root: &Path, wait: Wait) -> Result<Acquired<DirectoryLock>, LockError> {
        let site = Site::of(root);
        let now = Instant::now();
        let (deadline, turn_deadline) = match wait {
            Wait::For(budget) => (now + budget, now + budget),
            Wait::No => {
                // There is no need to wait in line for a lock that is held.
                if let Verdict::Held { pid, host } = holder::judge(&site.lock)? {
                    return Err(LockError::Busy { pid, host });
                }
                (now, now + SETTLE)
            }
        };
        match turnstile::enter(&site.guard, root, turn_deadline)? {
            Some(_turn) => take(&site, deadline),
            // The line did not move, perhaps because its head is stopped. The line only keeps
            // order, so a free lock may be taken without it.
            None => match Prepared::build(&site)?.place(&site)? {
                Placed::Done(guard) => Ok(Acquired { guard, warnings: Vec::new() }),
                Placed::Taken(_) | Placed::Unsupported(_) => Err(busy(&site)?),
            },
        }
    }

    /// Returns whether the directory at the path is still ours.
    #[must_use]
    pub fn still_held(&self) -> bool {
        Inode::at(&self.site.lock) == Some(self.inode)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if !self.still_held() {
            return;
        }
        let done = self.site.aside("done");
        if fs::rename(&self.site.lock, &done).is_err() {
            return;
        }
        if Inode::at(&done) == Some(self.inode) {
            // The next process that finds a dead lock removes a leftover.
            let _ = fs::remove_dir_all(&done);
        } else {
            put_back(&done, &self.site.lock);
        }
    }
}

/// Returns the holder of the lock of `root`, which must be canonical, without taking it.
pub(in crate::store) fn judge(root: &Path) -> Result<Verdict, LockError> {
    holder::judge(&Site::of(root).lock)
}

/// Tries until the lock is ours or the deadline has passed. The caller has the turn.
fn take(site: &Site, deadline: Instant) -> Result<Acquired<DirectoryLock>, LockError> {
    let mut warnings = Vec::new();
    let mut prepared = Prepared::build(site)?;
    for attempt in 0_u32.. {
        prepared = match prepared.place(site)? {
            Placed::Done(guard) => return Ok(Acquired { guard, warnings }),
            Placed::Taken(prepared) => prepared,
            Placed::Unsupported(prepared) => match make_in_place(site)? {
                Some(guard) => return Ok(Acquired { guard, warnings }),
                None => prepared,
            },
        };
        let late = Instant::now() >= deadline;
        if late || attempt % TRIES_PER_LOOK == 0 {
            match holder::judge(&site.lock)? {
                Verdict::Held { pid, host } if late => return Err(LockError::Busy { pid, host }),
                Verdict::Held { .. } => {}
                Verdict::Stale { pid, seen } => {
                    if reclaim(site, &seen)? {
                        warnings.push(Warning::Reclaimed { pid });
                        leftovers::sweep(&site.lock);
                        continue;
                    }
                }
                Verdict::Absent if Instant::now() < deadline + SETTLE => continue,
                // The lock is taken and released faster than we can take it.
                Verdict::Absent => return Err(LockError::Busy { pid: None, host: None }),
            }
        }
        thread::sleep(POLL);
    }
    Err(busy(site)?)
}

fn busy(site: &Site) -> Result<LockError, LockError> {
    Ok(match holder::judge(&site.lock)? {
        Verdict::Held { pid, host } => LockError::Busy { pid, host },
        Verdict::Stale { pid, .. } => LockError::Busy { pid, host: None },
        Verdict::Absent => LockError::Busy { pid: None, host: None },
    })
}

/// A signed directory of ours that is not in place yet. It is removed if it never gets there.
#[derive(Debug)]
struct Prepared {
    path: PathBuf,
    /// The lock that it becomes in place; `None` from then on.
    lock: Option<DirectoryLock>,
}

impl Prepared {
    fn build(site: &Site) -> Result<Prepared, LockError> {
        for _ in 0..NAMES_MAX {
            let path = site.aside("new");
            match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o700)) {
                Ok(()) => {}
                // It belongs to a dead process that had our pid.
                Err(Errno::EXIST) => continue,
                Err(e) => return Err(io_error("make", &path, e)),
            }
            let signed = open_directory(&path).and_then(|fd| {
                sign(&fd, &path)?;
                held(site, fd)
            });
            return match signed {
                Ok(lock) => Ok(Prepared { path, lock: Some(lock) }),
                Err(e) => {
                    let _ = fs::remove_dir_all(&path);
                    Err(e)
                }
            };
        }
        Err(io_error("make", &site.lock, io::ErrorKind::AlreadyExists))
    }

    fn place(mut self, site: &Site) -> Result<Placed, LockError> {
        match rename_noreplace(&self.path, &site.lock) {
            Ok(()) => match self.lock.take() {
                Some(lock) => Ok(Placed::Done(lock)),
                None => Ok(Placed::Taken(self)),
            },
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => Ok(Placed::Taken(self)),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(Placed::Unsupported(self)),
            // Another program removed our directory. The next try has a new one.
            Err(Errno::NOENT) => Ok(Placed::Taken(Prepared::build(site)?)),
            Err(e) => Err(io_error("take the lock", &site.lock, e)),
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // The next process that finds a dead lock removes a leftover.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Takes the lock in the published way, if the better one is not available. `mkdir` keeps other
/// harness processes out from the first moment, because an unsigned lock counts as held. The pid
/// follows at once.
fn make_in_place(site: &Site) -> Result<Option<DirectoryLock>, LockError> {
    match rustix::fs::mkdir(&site.lock, Mode::from_raw_mode(0o700)) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(None),
        Err(e) => return Err(io_error("make", &site.lock, e)),
    }
    let fd = open_directory(&site.lock)?;
    // The descriptor leads to our own directory, wherever a script moved it meanwhile.
    sign(&fd, &site.lock)?;
    let guard = held(site, fd)?;
    Ok(guard.still_held().then_some(guard))
}

fn held(site: &Site, fd: OwnedFd) -> Result<DirectoryLock, LockError> {
    let stat = rustix::fs::fstat(&fd).map_err(|e| io_error("look at", &site.lock, e))?;
    Ok(DirectoryLock { site: site.clone(), _fd: fd, inode: Inode::of_stat(&stat) })
}

fn open_directory(path: &Path) -> Result<OwnedFd, LockError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|e| io_error("open", path, e))
}

/// Writes `owner` first, because a lock with a pid is complete.
fn sign(fd: &OwnedFd, path: &Path) -> Result<(), LockError> {
    let owner = serde_json::to_vec(&Owner::this_process())
        .map_err(|e| io_error("sign", path, io::Error::from(e)))?;
    let pid = format!("{}\n", std::process::id());
    for (name, bytes) in [("owner", owner.as_slice()), ("pid", pid.as_bytes())] {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(fd, name, flags, Mode::from_raw_mode(0o600))
            .map_err(io::Error::from)
            .and_then(|file| fs::File::from(file).write_all(bytes))
            .map_err(|e| io_error("sign", path, e))?;
    }
    Ok(())
}

/// Returns whether the dead directory is gone. The caller has the turn.
fn reclaim(site: &Site, seen: &Seen) -> Result<bool, LockError> {
    let stale = site.aside("stale");
    match fs::rename(&site.lock, &stale) {
        Ok(()) => {}
        // A script was faster.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(io_error("remove the stale lock", &site.lock, e)),
    }
    if seen.is_at(&stale) {
        let _ = fs::remove_dir_all(&stale);
        return Ok(true);
    }
    put_back(&stale, &site.lock);
    Ok(false)
}

/// Returns what we should not have moved: a script's lock, taken between two calls of ours. If
/// another process took the place in that moment, there is nothing to return it to.
fn put_back(moved: &Path, lock: &Path) {
    let returned = match rename_noreplace(moved, lock) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            !lock.exists() && fs::rename(moved, lock).is_ok()
        }
        ended => ended.is_ok(),
    };
    if !returned {
        let _ = fs::remove_dir_all(moved);
    }
}

#[cfg(any(target_vendor = "apple", target_os = "linux", target_os = "android"))]
fn rename_noreplace(from: &Path, to: &Path) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(CWD, from, CWD, to, rustix::fs::RenameFlags::NOREPLACE)
}

#[cfg(not(any(target_vendor = "apple", target_os = "linux", target_os = "android")))]
fn rename_noreplace(_: &Path, _: &Path) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(folder: &Path) -> Site {
        Site { lock: folder.join("x.lock"), guard: folder.join("x.lock.guard") }
    }

    #[test]
    fn without_a_rename_that_keeps_what_is_there_the_directory_is_made_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let site = site(folder.path());
        let lock = make_in_place(&site).unwrap().unwrap();
        assert!(lock.still_held());
        assert!(make_in_place(&site).unwrap().is_none());
        let Verdict::Held { pid, host: None } = holder::judge(&site.lock).unwrap() else {
            panic!("not held");
        };
        assert_eq!(pid, Some(std::process::id()));
        drop(lock);
        assert!(!site.lock.exists());
    }

    #[test]
    fn a_release_leaves_the_lock_of_somebody_else_alone() {
        let folder = tempfile::tempdir().unwrap();
        let site = site(folder.path());
        let lock = make_in_place(&site).unwrap().unwrap();
        fs::rename(&site.lock, folder.path().join("stolen")).unwrap();
        fs::create_dir(&site.lock).unwrap();
        assert!(!lock.still_held());
        drop(lock);
        assert!(site.lock.exists());
    }

    #[test]
    fn what_was_moved_by_mistake_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let site = site(folder.path());
        fs::create_dir(&site.lock).unwrap();
        let old = rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 };
        let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
        rustix::fs::utimensat(CWD, &site.lock, &times, rustix::fs::AtFlags::empty()).unwrap();
        let Verdict::Stale { pid: None, seen } = holder::judge(&site.lock).unwrap() else {
            panic!("not stale");
        };
        // A script reclaims it between our look and our move.
        fs::rename(&site.lock, folder.path().join("elsewhere")).unwrap();
        fs::create_dir(&site.lock).unwrap();
        fs::write(site.lock.join("pid"), "1\n").unwrap();
        assert!(!reclaim(&site, &seen).unwrap());
        assert_eq!(fs::read_to_string(site.lock.join("pid")).unwrap(), "1\n");
    }
}
