//! Our files for readers: no lock, no repair, and no link is followed.

use std::{fs, io, path::Path};

use super::{
    StoreError,
    disk::{Disk as _, File, RealDisk},
    lock::{self, LockError, Verdict},
};

/// The text of the ledger as it stands, for [`Project::snapshot`](crate::Project::snapshot).
pub(crate) fn read_text(root: &Path) -> Result<Vec<u8>, StoreError> {
    match RealDisk::open(root)?.read(File::Ledger)? {
        Some((bytes, _)) => Ok(bytes),
        None => Err(StoreError::NoLedger { root: root.to_owned() }),
    }
}

/// Reads the previous version of the ledger; `None` if nothing was overwritten yet.
pub fn look_backup(root: &Path) -> io::Result<Option<Vec<u8>>> {
    Ok(RealDisk::open(root)?.read(File::Backup)?.map(|(bytes, _)| bytes))
}

/// Opens the log for reading; it only grows. Returns `None` if there is none.
pub fn open_log(root: &Path) -> io::Result<Option<fs::File>> {
    RealDisk::open(root)?.open_to_read(File::Log)
}

/// The state of the lock of a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
    /// No process holds it.
    Free,
    /// A process holds it. `host` is set if it runs where its state cannot be determined.
    Held {
        /// The holder, if it is known.
        pid: Option<u32>,
        /// The host of the holder, if it is another one.
        host: Option<String>,
    },
    /// It belongs to a dead process. The next process that takes the lock removes it.
    Stale {
        /// That process, if it is known.
        pid: Option<u32>,
    },
}

/// Checks the lock without taking it. `root` must be canonical.
pub fn look_lock(root: &Path) -> Result<LockState, LockError> {
    Ok(match lock::judge(root)? {
        Verdict::Absent => LockState::Free,
        Verdict::Held { pid, host } => LockState::Held { pid, host },
        Verdict::Stale { pid, .. } => LockState::Stale { pid },
    })
}
