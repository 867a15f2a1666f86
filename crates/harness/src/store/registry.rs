//! The workers of all processes of a root. Each has a file in `.harness/workers`, and an OS lock on it
//! that its process holds for life. The kernel frees the lock when the process dies, for whatever
//! reason, so a free lock proves on this host that the worker is dead.

use std::{
    fs::{self, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use harness_core::{RunId, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};

use super::lock::lock_until;
use crate::{
    home::{Home, Inode, folder::Folder},
    process::life::here,
};

/// A process that checks the lock holds it for a moment.
const LOOK: Duration = Duration::from_millis(100);
/// The limit of tries if a file is removed between its opening and its locking.
const TRIES: usize = 100;
/// A limit far above the size of our files.
const BYTES_MAX: u64 = 64 * 1024;

/// A worker, as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// Its id, which is also the name of the file.
    pub id: WorkerId,
    /// The process id, which is valid on `host` during `boot`.
    pub pid: u32,
    /// The host or container.
    pub host: String,
    /// The boot of the host; `None` if the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The start of the worker.
    pub started_at: Timestamp,
    /// The run that pays for its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Its own work tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<PathBuf>,
    /// The socket on which its process serves its agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Its labels, for tasks that require some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

impl WorkerRecord {
    /// Returns the record of a worker of this process.
    pub fn of_this_process(id: WorkerId, started_at: Timestamp) -> Self {
        let here = here();
        Self {
            id,
            pid: std::process::id(),
            host: here.host.clone(),
            boot: here.boot_id.clone(),
            started_at,
            run: None,
            worktree: None,
            socket: None,
            labels: Vec::new(),
        }
    }
}

/// Whether the process of a worker is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Its lock is held.
    Alive,
    /// Its lock is free, and it was on this host.
    Dead,
    /// There is no file, or the lock says nothing because the worker was on another host.
    Unknown,
}

/// A worker with the state of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredWorker {
    /// The contents of its file.
    pub record: WorkerRecord,
    /// The state of its process.
    pub presence: Presence,
}

/// The workers of a root.
#[derive(Debug, Clone)]
pub struct Registry {
    folder: PathBuf,
}

/// The entry of a worker of this process. It is removed when this is dropped.
#[derive(Debug)]
pub struct Registration {
    folder: Folder,
    record: WorkerRecord,
    locked: fs::File,
}

impl Registry {
    /// Returns the workers of `root`.
    pub fn of(root: &Path) -> Self {
        Self { folder: Home::of(root).workers() }
    }

    /// Registers a worker of this process. Returns `None` if a worker of this id is running.
    pub fn register(&self, record: WorkerRecord) -> io::Result<Option<Registration>> {
        let folder = Folder::ours(&self.folder)?;
        let name = record.id.as_str().to_owned();
        for _ in 0..TRIES {
            let file = folder.open_to_lock(&name)?;
            let Some(locked) = lock_until(file, Instant::now() + LOOK)? else { return Ok(None) };
            if Folder::has_second_name(&locked)? {
                // An agent gave the file a second name. A new file has only one.
                folder.put(&name, b"")?;
            } else if self.is_at(&locked, &name) {
                let mut registration = Registration { folder, record, locked };
                registration.write()?;
                return Ok(Some(registration));
            }
        }
        Ok(None)
    }

    /// Returns the registered workers, sorted by id.
    pub fn workers(&self) -> io::Result<Vec<RegisteredWorker>> {
        let Some(folder) = Folder::find(&self.folder)? else { return Ok(Vec::new()) };
        let mut names = folder.names()?;
        names.sort();
        Ok(names.iter().filter_map(|name| look(&folder, name)).collect())
    }

    /// Returns whether the process of a worker is alive. A state that cannot be read is unknown.
    pub fn presence(&self, worker: &WorkerId) -> Presence {
        let folder = Folder::find(&self.folder).ok().flatten();
        let found = folder.and_then(|folder| look(&folder, worker.as_str()));
        found.map_or(Presence::Unknown, |found| found.presence)
    }

    /// Removes the file of a worker that is dead.
    pub fn forget(&self, worker: &WorkerId) -> io::Result<()> {
        let Some(folder) = Folder::find(&self.folder)? else { return Ok(()) };
        let Some(found) = look(&folder, worker.as_str()) else { return Ok(()) };
        if found.presence != Presence::Dead {
            return Ok(());
        }
        let file = folder.open_to_lock(worker.as_str())?;
        // A process that takes this id now holds the lock.
        if file.try_lock().is_ok() && self.is_at(&file, worker.as_str()) {
            folder.remove(worker.as_str())?;
        }
        Ok(())
    }

    fn is_at(&self, file: &fs::File, name: &str) -> bool {
        let path = self.folder.join(name);
        file.metadata().is_ok_and(|ours| Inode::at(&path) == Some(Inode::of(&ours)))
    }
}

impl Registration {
    /// Returns the current contents of the file.
    pub fn record(&self) -> &WorkerRecord {
        &self.record
    }

    /// Changes the contents of the file.
    pub fn update(&mut self, change: impl FnOnce(&mut WorkerRecord)) -> io::Result<()> {
        change(&mut self.record);
        self.write()
    }

    /// Writes in place, because the lock belongs to this very file.
    fn write(&mut self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.record)?;
        text.push(b'\n');
        self.locked.set_len(0)?;
        self.locked.rewind()?;
        self.locked.write_all(&text)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // A file that stays names a dead worker, because nothing holds its lock.
        _ = self.folder.remove(self.record.id.as_str());
    }
}

/// Returns the worker of a file; `None` if it is not a file of a worker.
fn look(folder: &Folder, name: &str) -> Option<RegisteredWorker> {
    let file = folder.open_to_read(name).ok()??;
    // The presence is read first: a process that dies in between is found dead at the next look.
    let held = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    let mut text = Vec::new();
    (&file).take(BYTES_MAX).read_to_end(&mut text).ok()?;
    let record: WorkerRecord = serde_json::from_slice(&text).ok()?;
    if record.id.as_str() != name {
        return None;
    }
    let presence = match held {
        true => Presence::Alive,
        false if record.host == here().host => Presence::Dead,
        false => Presence::Unknown,
    };
    Some(RegisteredWorker { record, presence })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn record(id: &str) -> WorkerRecord {
        let now = Timestamp::from_seconds(1);
        WorkerRecord::of_this_process(WorkerId::parse(id).unwrap(), now)
    }

    #[test]
    fn a_worker_is_alive_while_its_process_holds_the_lock() {
        let place = tempfile::tempdir().unwrap();
        let registry = Registry::of(place.path());
        let worker = WorkerId::parse("w.1").unwrap();
        assert_eq!(registry.presence(&worker), Presence::Unknown);
        let mut taken = registry.register(record("w.1")).unwrap().unwrap();
        assert_eq!(registry.presence(&worker), Presence::Alive);
        assert!(registry.register(record("w.1")).unwrap().is_none());
        taken.update(|record| record.labels.push("gpu".to_owned())).unwrap();
        registry.forget(&worker).unwrap();
        let found = registry.workers().unwrap();
        assert_eq!(found[0].record.labels, ["gpu"]);
        assert_eq!(found[0].presence, Presence::Alive);
        drop(taken);
        assert_eq!(registry.workers().unwrap(), []);
    }

    #[test]
    fn a_killed_worker_is_dead_on_its_host_only_and_its_file_can_be_removed() {
        let place = tempfile::tempdir().unwrap();
        let registry = Registry::of(place.path());
        let folder = Home::of(place.path()).workers();
        fs::create_dir_all(&folder).unwrap();
        let elsewhere = WorkerRecord { host: "another".to_owned(), ..record("far") };
        for left in [record("near"), elsewhere] {
            let text = serde_json::to_vec(&left).unwrap();
            fs::write(folder.join(left.id.as_str()), text).unwrap();
        }
        fs::write(folder.join("terminal-7-8"), "worker-0123456789ab\n").unwrap();
        let [near, far] = ["near", "far"].map(|id| WorkerId::parse(id).unwrap());
        assert_eq!(registry.presence(&near), Presence::Dead);
        assert_eq!(registry.presence(&far), Presence::Unknown);
        assert_eq!(registry.workers().unwrap().len(), 2, "other files are no workers");
        registry.forget(&far).unwrap();
        registry.forget(&near).unwrap();
        assert!(folder.join("far").exists() && !folder.join("near").exists());
        let again = registry.register(record("near")).unwrap();
        assert!(again.is_some(), "the id is free");
    }
}
