//! Our files for those who only look: no lock, no repair, no link followed.

use std::{fs, io, path::Path};

use harness_core::{Ledger, format};

use super::{
    StoreError,
    disk::{Disk as _, File, RealDisk},
    lock::{self, LockError, Verdict},
};

/// The ledger as it stands, without lock or repair: for those who only look.
pub fn look(root: &Path) -> Result<Ledger, StoreError> {
    let disk = RealDisk::open(root)?;
    let Some((bytes, _)) = disk.read(File::Ledger)? else {
        return Err(StoreError::NoLedger { root: root.to_owned() });
    };
    format::read_ledger(&bytes).map_err(StoreError::Format)
}

/// The text of the ledger as it stands, for callers that show what [`look`] does not know.
pub fn look_bytes(root: &Path) -> Result<Vec<u8>, StoreError> {
    match RealDisk::open(root)?.read(File::Ledger)? {
        Some((bytes, _)) => Ok(bytes),
        None => Err(StoreError::NoLedger { root: root.to_owned() }),
    }
}

/// The ledger's previous version; `None` where nothing was written over yet.
pub fn look_backup(root: &Path) -> io::Result<Option<Vec<u8>>> {
    Ok(RealDisk::open(root)?.read(File::Backup)?.map(|(bytes, _)| bytes))
}

/// The log, to be read at leisure: it only grows. `None` where there is none.
pub fn open_log(root: &Path) -> io::Result<Option<fs::File>> {
    RealDisk::open(root)?.open_to_read(File::Log)
}

/// Whether somebody holds the lock of a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
    /// Nobody holds it.
    Free,
    /// `host` is set when the holder runs where nobody here can tell whether it still lives.
    Held {
        /// The holder, if it said who it is.
        pid: Option<u32>,
        /// Where it runs, if not here.
        host: Option<String>,
    },
    /// Of a process that is gone; the next holder removes it.
    Stale {
        /// That process, if it said who it was.
        pid: Option<u32>,
    },
}

/// Looks at the lock without taking it. `root` is canonical.
pub fn look_lock(root: &Path) -> Result<LockState, LockError> {
    Ok(match lock::judge(root)? {
        Verdict::Absent => LockState::Free,
        Verdict::Held { pid, host } => LockState::Held { pid, host },
        Verdict::Stale { pid, .. } => LockState::Stale { pid },
    })
}
