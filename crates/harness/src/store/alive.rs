//! Workers that are known to be at work, whatever the clock says.
//!
//! A lease ends by the wall clock, and clocks jump and differ. The process that gave out a claim
//! measures the lease by a monotonic clock, and holds an OS lock on a file of the worker for as
//! long. Other processes see that the lock is held. When its holder dies, the kernel frees the lock
//! and the wall clock counts.

use std::{
    collections::BTreeSet,
    fs::{self, TryLockError},
    io,
    path::Path,
    time::{Duration, Instant},
};

use harness_core::{Ledger, Timestamp, WorkerId, task::Via};
use sha2::{Digest as _, Sha256};

use super::lock::lock_until;
use crate::home::{Home, folder::Folder};

/// A process that checks the lock holds it for a moment.
const LOOK: Duration = Duration::from_millis(100);

/// Vouches for a worker until it is dropped.
#[derive(Debug)]
pub(crate) struct Alive {
    folder: Folder,
    name: String,
    _locked: fs::File,
}

impl Drop for Alive {
    fn drop(&mut self) {
        // A file that stays has no meaning, because nothing holds its lock.
        _ = self.folder.remove(&self.name);
    }
}

fn name(worker: &WorkerId) -> String {
    let digest = Sha256::digest(worker.as_str().as_bytes());
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}.lock")
}

/// Returns `None` if another process already vouches for the worker.
pub(crate) fn vouch(root: &Path, worker: &WorkerId) -> io::Result<Option<Alive>> {
    let (folder, name) = (Folder::ours(&Home::of(root).workers())?, name(worker));
    let locked = lock_until(folder.open_to_lock(&name)?, Instant::now() + LOOK)?;
    Ok(locked.map(|locked| Alive { folder, name, _locked: locked }))
}

/// Returns whether a process vouches for the worker. A state that cannot be read counts as no.
fn is_vouched_for(root: &Path, worker: &WorkerId) -> bool {
    let find = || -> io::Result<Option<fs::File>> {
        match Folder::find(&Home::of(root).workers())? {
            Some(folder) => folder.open_to_read(&name(worker)),
            None => Ok(None),
        }
    };
    let Ok(Some(file)) = find() else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Returns the clients at work among those whose leases have ended by the clock.
pub(super) fn among(root: &Path, ledger: &Ledger, now: Timestamp) -> BTreeSet<WorkerId> {
    let expired = ledger.selection().expired(now).filter_map(|id| ledger.task(id));
    let clients = expired.filter(|task| task.claimed_via() == Via::Client);
    let workers = clients.filter_map(|task| task.claimed_by().cloned());
    workers.filter(|worker| is_vouched_for(root, worker)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_vouches_is_seen_until_it_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let (root, worker) = (place.path(), WorkerId::parse("w").unwrap());
        assert!(!is_vouched_for(root, &worker));
        let alive = vouch(root, &worker).unwrap().unwrap();
        assert!(is_vouched_for(root, &worker));
        assert!(vouch(root, &worker).unwrap().is_none());
        drop(alive);
        assert!(!is_vouched_for(root, &worker));
        assert_eq!(fs::read_dir(Home::of(root).workers()).unwrap().count(), 0);
    }
}
