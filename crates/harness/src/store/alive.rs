//! Workers that are known to be at work, whatever the clock says.
//!
//! A lease ends by the wall clock, and clocks jump and differ. Who gave out a claim and is still there
//! measures the lease by a clock that only goes forward, and holds an OS lock on a file of the worker
//! for as long. Others see that it is held; when its holder dies, the kernel frees it and the wall clock
//! counts.

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

/// A process that looks at the lock holds it for a moment.
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
        // A file that stays says nothing: nobody holds its lock.
        _ = self.folder.remove(&self.name);
    }
}

fn name(worker: &WorkerId) -> String {
    let digest = Sha256::digest(worker.as_str().as_bytes());
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}.lock")
}

/// `None` if somebody else vouches for it already.
pub(crate) fn vouch(root: &Path, worker: &WorkerId) -> io::Result<Option<Alive>> {
    let (folder, name) = (Folder::ours(&Home::of(root).workers())?, name(worker));
    let locked = lock_until(folder.open_to_lock(&name)?, Instant::now() + LOOK)?;
    Ok(locked.map(|locked| Alive { folder, name, _locked: locked }))
}

/// Whether anybody does. What cannot be seen counts as no.
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

/// Of the clients whose leases are over by the clock, those that are at work.
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
