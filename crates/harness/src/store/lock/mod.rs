//! The lock of a state root, which decides who may write its ledger.
//!
//! There are two locks, always taken in this order. The directory `/tmp/harness-<hash>.lock`
//! excludes scripts that follow the published shell protocol, and they exclude us by it. It names
//! its holder. The OS lock on `.harness/lock` excludes processes that share the files but not
//! `/tmp` (a container). The kernel frees it when its holder dies. Nothing here prints: messages
//! for a person are returned as a [`Warning`].

mod directory;
mod holder;
mod leftovers;
mod turnstile;

use std::{
    collections::BTreeSet,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

#[doc(hidden)]
pub use directory::DirectoryLock;
#[doc(hidden)]
pub use leftovers::sweep_guards;
pub(crate) use turnstile::lock_until;
pub(super) use {directory::judge, holder::Verdict};

use crate::home::Home;
use crate::store::disk::RealDisk;

/// The time that a caller without a wait allows for an operation that takes microseconds, such as
/// reclaiming a dead lock or handing one over.
const SETTLE: Duration = Duration::from_secs(1);

/// The behaviour while another process holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Fail, apart from the moment that a handover takes.
    No,
    /// Wait at most this long.
    For(Duration),
}

/// A message for the user (on stderr, after `WARN: `) although the lock was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The lock of a dead process was removed.
    Reclaimed {
        /// The dead process; `None` if it had written no pid.
        pid: Option<u32>,
    },
    /// Another user created something in the place of the lock. A process reports it once.
    Squatted {
        /// The path of the lock.
        path: PathBuf,
        /// That user.
        uid: u32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Reclaimed { pid: Some(pid) } => {
                write!(f, "Removed stale lock from pid={pid}")
            }
            Warning::Reclaimed { pid: None } => f.write_str("Removed stale lock"),
            Warning::Squatted { path, uid } => write!(
                f,
                "the lock {} belongs to another user (uid={uid}), so only .harness/lock keeps \
                 others out; scripts that lock with mkdir cannot work here until it is removed",
                path.display()
            ),
        }
    }
}

/// The object at a path of ours in `/tmp`, where every user may create files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// A symbolic link, which could lead anywhere.
    Symlink,
    /// Something else where the lock directory should be.
    NotADirectory,
    /// Something else where a regular file beside the lock should be.
    NotAFile,
    /// It belongs to another user.
    Foreign {
        /// That user.
        uid: u32,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Symlink => f.write_str("is a symbolic link"),
            Obstacle::NotADirectory => f.write_str("is not a directory"),
            Obstacle::NotAFile => f.write_str("is not a regular file"),
            Obstacle::Foreign { uid } => write!(f, "belongs to another user (uid={uid})"),
        }
    }
}

/// The reason why the lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds the lock. The message is that of the published protocol. `host` is set
    /// if the holder runs on another host or in another container, where its state cannot be
    /// determined.
    #[error("Another harness session is active (pid={})", pid.map_or("unknown".to_owned(), |pid| pid.to_string()))]
    Busy {
        /// The holder, if it is known.
        pid: Option<u32>,
        /// The host of the holder, if it is another one.
        host: Option<String>,
    },
    /// The directory in `/tmp` was free, but the OS lock was not.
    #[error(
        "the ledger in {} is locked by a process that can't be seen from here: it holds .harness/lock, perhaps from another container",
        root.display()
    )]
    Unseen {
        /// The state root.
        root: PathBuf,
    },
    /// An object at the path cannot be ours.
    #[error("the lock {} {obstacle}; harness does not use it: remove it", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// The kind of object.
        obstacle: Obstacle,
    },
    /// The file system failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// A verb, for the message.
        doing: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// An operation on the state root's own files failed. The error names the file.
    #[error(transparent)]
    Disk(io::Error),
}

fn io_error(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> LockError {
    LockError::Io { doing, path: path.to_owned(), source: source.into() }
}

/// A lock, with warnings about how it was taken.
#[derive(Debug)]
pub struct Acquired<L> {
    /// The lock, which is released when it is dropped.
    pub guard: L,
    /// Warnings for a person.
    pub warnings: Vec<Warning>,
}

/// Both locks of a state root, held until it is dropped.
#[derive(Debug)]
pub struct StateLock {
    // Fields are dropped in this order. The lock that was taken last is released first, so that the
    // next holder of the directory finds the other lock free.
    _ledger: fs::File,
    /// The directory lock; `None` if another user occupies its place.
    directory: Option<DirectoryLock>,
}

impl StateLock {
    /// Takes both locks of `root`, which must exist. The wait covers both together.
    pub fn acquire(root: &Path, wait: Wait) -> Result<Acquired<StateLock>, LockError> {
        let root = fs::canonicalize(root).map_err(|e| io_error("find", root, e))?;
        let disk = RealDisk::open(&root).map_err(LockError::Disk)?;
        let started = Instant::now();
        let (directory, warnings) = match DirectoryLock::acquire(&root, wait) {
            Ok(Acquired { guard, warnings }) => (Some(guard), warnings),
            // Any user can do that, and in /tmp only that user or root can undo it.
            Err(LockError::Refused { path, obstacle: Obstacle::Foreign { uid } }) => (
                None,
                first_time(&root).then_some(Warning::Squatted { path, uid }).into_iter().collect(),
            ),
            Err(other) => return Err(other),
        };
        let deadline = match wait {
            // Without the directory this is the only lock, and its holder may be about to hand it
            // over.
            Wait::No if directory.is_none() => Instant::now() + SETTLE,
            // A process on this machine that gave up waiting may hold it for a moment.
            Wait::No => Instant::now() + SETTLE / 10,
            Wait::For(budget) => started + budget,
        };
        let file = disk.open_lock().map_err(LockError::Disk)?;
        let path = Home::of(&root).lock();
        match turnstile::lock_until(file, deadline).map_err(|e| io_error("lock", &path, e))? {
            Some(ledger) => {
                Ok(Acquired { guard: StateLock { _ledger: ledger, directory }, warnings })
            }
            None if directory.is_none() => Err(LockError::Busy { pid: None, host: None }),
            None => Err(LockError::Unseen { root }),
        }
    }

    /// Returns whether the directory is still the one that we put there. A script of the published
    /// protocol can take it away from a live holder. Call this directly before a commit.
    #[must_use]
    pub fn still_held(&self) -> bool {
        self.directory.as_ref().is_none_or(DirectoryLock::still_held)
    }
}

/// Returns whether this process has not reported it for this root yet.
fn first_time(root: &Path) -> bool {
    static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(root.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_published_protocol() {
        let busy = LockError::Busy { pid: Some(12345), host: None };
        assert_eq!(busy.to_string(), "Another harness session is active (pid=12345)");
        let warning = Warning::Reclaimed { pid: Some(7) };
        assert_eq!(warning.to_string(), "Removed stale lock from pid=7");
    }
}
