//! The storage of the settings of a claim: one file for each claim in the user's state directory,
//! which no agent is asked to touch.

use std::{
    fs, io,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use harness_core::{Epoch, TaskId};
use sha2::{Digest, Sha256};

use super::Settings;
use crate::workspace::{WorkspaceError, git::Git, object::absent};

/// The records of one state directory. Clones share the last reading.
#[derive(Debug, Clone)]
pub(in crate::workspace) struct Records {
    directory: PathBuf,
    last: Arc<Mutex<Option<Settings>>>,
}

impl Records {
    pub(in crate::workspace) fn new(directory: PathBuf) -> Self {
        Self { directory, last: Arc::default() }
    }

    /// Returns the records in the same place for another work tree.
    pub(in crate::workspace) fn anew(&self) -> Self {
        Self::new(self.directory.clone())
    }

    pub(super) fn last(&self) -> Option<Settings> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_last(&self, settings: Settings) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings);
    }

    /// Returns the folder of one work tree.
    fn folder(&self, git: &Git) -> PathBuf {
        let hash = Sha256::digest(git.top_level.as_os_str().as_bytes());
        let name: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(name)
    }

    fn file(&self, git: &Git, task: &TaskId, epoch: Epoch) -> PathBuf {
        self.folder(git).join(format!("{task}.{epoch}.json"))
    }

    /// Returns the folder for files of the user that were set back. They stay when the claim is
    /// forgotten.
    pub(super) fn kept(&self, git: &Git, task: &TaskId, epoch: Epoch) -> PathBuf {
        self.folder(git).join(format!("{task}.{epoch}.kept"))
    }

    pub(super) fn write(
        &self,
        git: &Git,
        task: &TaskId,
        epoch: Epoch,
        settings: &Settings,
    ) -> Result<(), WorkspaceError> {
        let folder = self.folder(git);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let text = serde_json::to_vec(settings).map_err(io::Error::from)?;
        // The file is created with mode 0600.
        let mut made = tempfile::NamedTempFile::new_in(&folder)?;
        made.write_all(&text)?;
        made.persist(self.file(git, task, epoch)).map_err(|failed| failed.error)?;
        self.forget_others(&folder, task, epoch);
        Ok(())
    }

    /// Removes the records of earlier claims of the same task whose ends were not reported. A
    /// record that stays does no harm.
    fn forget_others(&self, folder: &Path, task: &TaskId, epoch: Epoch) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let of = name.to_str().and_then(|name| name.strip_suffix(".json")?.rsplit_once('.'));
            if of.is_some_and(|(of, at)| of == task.as_str() && at != epoch.to_string()) {
                let _ = remove(&entry.path());
            }
        }
    }

    pub(super) fn load(
        &self,
        git: &Git,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Option<Settings>, WorkspaceError> {
        match fs::read(self.file(git, task, epoch)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(in crate::workspace) fn forget(
        &self,
        git: &Git,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<(), WorkspaceError> {
        remove(&self.file(git, task, epoch))
    }
}

fn remove(file: &Path) -> Result<(), WorkspaceError> {
    match fs::remove_file(file) {
        Err(error) if !absent(&error) => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}
