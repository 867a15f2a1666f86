//! The lock of a state root: who may write its ledger.
//!
//! Two locks, always in this order. The directory `/tmp/harness-<hash>.lock` keeps out, and is kept
//! out by, scripts that follow the published shell protocol; it names its holder. The OS lock on
//! `.harness/lock` keeps out who shares the files but not `/tmp` (a container); the kernel frees it
//! when its holder dies. Nothing here prints: what a person should know comes back as a [`Warning`].

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
pub(crate) use turnstile::lock_until;
pub(super) use {directory::judge, holder::Verdict};

use crate::home::Home;
use crate::store::disk::RealDisk;

/// How long a caller that does not wait gives others to finish what takes them microseconds:
/// reclaiming a dead lock, or handing one over.
const SETTLE: Duration = Duration::from_secs(1);

/// What to do while somebody else holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Fail, but for a moment that a change of hands takes.
    No,
    /// Wait at most this long.
    For(Duration),
}

/// Something to tell the user (on stderr, after `WARN: `) although the lock was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The lock of a dead process was removed. `None` if it had written no pid.
    Reclaimed {
        /// The dead process.
        pid: Option<u32>,
    },
    /// Another user put something in the place of the lock. Told once by a process.
    Squatted {
        /// Where it stands.
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

/// What stands at a path of ours in `/tmp`, where anybody may put things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// It could lead anywhere.
    Symlink,
    /// Where the lock should be one.
    NotADirectory,
    /// Where a file beside the lock should be a regular one.
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

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The words of the published protocol. `host` is set when the holder runs on another one, or
    /// in another container, where nobody here can tell whether it still lives.
    #[error("Another harness session is active (pid={})", pid.map_or("unknown".to_owned(), |pid| pid.to_string()))]
    Busy {
        /// The holder, if it said who it is.
        pid: Option<u32>,
        /// Where it runs, if not here.
        host: Option<String>,
    },
    /// The directory in `/tmp` was free, the OS lock was not.
    #[error(
        "the ledger in {} is locked by a process that can't be seen from here: it holds .harness/lock, perhaps from another container",
        root.display()
    )]
    Unseen {
        /// The state root.
        root: PathBuf,
    },
    /// Something is in the way that cannot be ours.
    #[error("the lock {} {obstacle}; harness does not use it: remove it", path.display())]
    Refused {
        /// Where it stands.
        path: PathBuf,
        /// What it is.
        obstacle: Obstacle,
    },
    /// The file system failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// A verb, for the message.
        doing: &'static str,
        /// What it was done to.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The state root's own files failed. Names its file itself.
    #[error(transparent)]
    Disk(io::Error),
}

fn io_error(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> LockError {
    LockError::Io { doing, path: path.to_owned(), source: source.into() }
}

/// A lock and what is to be told about how it was got.
#[derive(Debug)]
pub struct Acquired<L> {
    /// Gives the lock back when it is dropped.
    pub guard: L,
    /// What a person should hear.
    pub warnings: Vec<Warning>,
}

/// Both locks of a state root, until it is dropped.
#[derive(Debug)]
pub struct StateLock {
    // Fields are dropped in this order: the lock taken last goes first, so that the next holder of
    // the directory finds the other lock free.
    _ledger: fs::File,
    /// `None` where another user is in its place.
    directory: Option<DirectoryLock>,
}

impl StateLock {
    /// Takes both locks of `root`, which exists. The time to wait is for both together.
    pub fn acquire(root: &Path, wait: Wait) -> Result<Acquired<StateLock>, LockError> {
        let root = fs::canonicalize(root).map_err(|e| io_error("find", root, e))?;
        let disk = RealDisk::open(&root).map_err(LockError::Disk)?;
        let started = Instant::now();
        let (directory, warnings) = match DirectoryLock::acquire(&root, wait) {
            Ok(Acquired { guard, warnings }) => (Some(guard), warnings),
            // Anybody can do that, and in /tmp nobody but them or root can undo it.
            Err(LockError::Refused { path, obstacle: Obstacle::Foreign { uid } }) => (
                None,
                first_time(&root).then_some(Warning::Squatted { path, uid }).into_iter().collect(),
            ),
            Err(other) => return Err(other),
        };
        let deadline = match wait {
            // Without the directory this is the lock, and its holder may be about to hand it over.
            Wait::No if directory.is_none() => Instant::now() + SETTLE,
            // Somebody on this machine who gave up waiting may hold it for a moment.
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

    /// Whether the directory is still the one we put there: a script of the published protocol can
    /// take it away from a live holder. To be asked right before a commit.
    #[must_use]
    pub fn still_held(&self) -> bool {
        self.directory.as_ref().is_none_or(DirectoryLock::still_held)
    }
}

/// Whether this process has not told it of this root yet.
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
