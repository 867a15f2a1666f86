//! The guard file beside the lock, `….lock.guard`: an OS lock that puts waiters in a line.
//!
//! Only the process inside polls the directory; the others sleep in the kernel. The guard also
//! makes "judged dead" and "moved away" one step among harness processes. It is not the lock
//! itself: a process that holds the guard holds nothing yet. The file stays, because removing it
//! after each turn would split the line in two. It contains the path of its root, so that it can be
//! removed when the root is gone.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::mpsc,
    thread,
    time::Instant,
};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

use super::{LockError, holder::refuse, io_error};
use crate::home::Inode;

/// The turn at the lock, held until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _guard: fs::File,
}

/// Waits at the guard of `root`. Returns `None` if it is not our turn by the deadline.
pub(super) fn enter(
    path: &Path,
    root: &Path,
    deadline: Instant,
) -> Result<Option<Turn>, LockError> {
    loop {
        let guard = open(path)?;
        let stat = rustix::fs::fstat(&guard).map_err(|e| io_error("look at", path, e))?;
        let locked = lock_until(guard, deadline).map_err(|e| io_error("lock", path, e))?;
        let Some(mut guard) = locked else {
            return Ok(None);
        };
        // A program that tidies `/tmp` may have removed the file while we waited. The line is then
        // at another file.
        if Inode::at(path) == Some(Inode::of_stat(&stat)) {
            if stat.st_size == 0 {
                // A guard without a path is only removed later.
                _ = guard.write_all(root.as_os_str().as_bytes());
            }
            return Ok(Some(Turn { _guard: guard }));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
    }
}

fn open(path: &Path) -> Result<fs::File, LockError> {
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600));
    let stat = match &opened {
        Ok(file) => rustix::fs::fstat(file),
        Err(_) => rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW),
    };
    match (opened, stat) {
        (Ok(file), Ok(stat)) => {
            refuse(path, &stat, FileType::RegularFile)?;
            Ok(fs::File::from(file))
        }
        (Err(e), Ok(stat)) => {
            refuse(path, &stat, FileType::RegularFile)?;
            Err(io_error("open", path, e))
        }
        (Ok(_), Err(e)) => Err(io_error("look at", path, e)),
        (Err(e), Err(_)) => Err(io_error("open", path, e)),
    }
}

/// Takes the OS lock of a file, or gives up at the deadline.
///
/// No system has a timed file lock, so a thread waits in our place. A thread that is given up on
/// gets its lock some time later, finds no receiver, and releases it.
pub(crate) fn lock_until(file: fs::File, deadline: Instant) -> io::Result<Option<fs::File>> {
    match file.try_lock() {
        Ok(()) => return Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => {}
        Err(fs::TryLockError::Error(e)) => return Err(e),
    }
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(None);
    }
    let (send, receive) = mpsc::sync_channel(0);
    thread::Builder::new().name("lock-waiter".to_owned()).spawn(move || {
        let locked = loop {
            match file.lock() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                ended => break ended.map(|()| file),
            }
        };
        // An error means that nothing waits any more.
        let _ = send.send(locked);
    })?;
    match receive.recv_timeout(left) {
        Ok(locked) => locked.map(Some),
        Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(io::Error::other("the waiter is gone")),
    }
}
