//! The places of the work trees of workers, and the OS locks beside them.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use harness_core::WorkerId;
use sha2::{Digest, Sha256};

use crate::{
    home::{Home, root_hash},
    workspace::WorkspaceError,
};

/// The longest folder name that is taken from the id of a worker.
const NAME_BYTES: usize = 100;
/// The end of the name of a lock.
const LOCK: &str = ".lock";
/// The end of the name of a folder that is being removed.
const TRASH: &str = ".removed";
/// The end of the name of a folder whose entry in the repository is being made again.
const ADOPTED: &str = ".adopted";

/// The folder of all work trees of one state root.
#[derive(Debug, Clone)]
pub(super) struct Place {
    folder: PathBuf,
}

impl Place {
    /// A configured folder may serve several roots, so each gets a folder below it.
    pub(super) fn new(state_root: &Path, configured: Option<&Path>) -> Self {
        let Some(configured) = configured else {
            return Self { folder: Home::of(state_root).worktrees() };
        };
        let name = state_root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let own = format!("{}-{}", escaped(&name), root_hash(state_root));
        Self { folder: state_root.join(configured).join(own) }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the folder and returns its canonical path. A link in its place is refused, because
    /// work trees would be created and cleaned wherever it leads.
    pub(super) fn create(&self) -> Result<PathBuf, WorkspaceError> {
        fs::create_dir_all(&self.folder)?;
        if fs::symlink_metadata(&self.folder)?.is_symlink() {
            return Err(WorkspaceError::Unsafe {
                what: format!("{} is a link", self.folder.display()),
                hint: "remove it, or set `worktrees` in [parallel] to the folder".to_owned(),
            });
        }
        Ok(self.folder.canonicalize()?)
    }

    /// Takes a lock that excludes other callers, in this and in other processes, until the file is
    /// dropped.
    pub(super) fn lock(&self) -> io::Result<File> {
        let folder = File::open(&self.folder)?;
        folder.lock()?;
        Ok(folder)
    }

    pub(super) fn tree(&self, worker: &WorkerId) -> PathBuf {
        let folder = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        folder.join(folder_name(worker))
    }
}

/// Returns the path of the lock of a work tree.
pub(super) fn lock_of(tree: &Path) -> PathBuf {
    beside(tree, LOCK)
}

/// Returns the path to which a work tree is moved before it is removed, so that a removal that is cut
/// short leaves no half of a work tree.
pub(super) fn trash_of(tree: &Path) -> PathBuf {
    beside(tree, TRASH)
}

/// Returns the path to which a work tree is moved while its entry is made again.
pub(super) fn adopted_of(tree: &Path) -> PathBuf {
    beside(tree, ADOPTED)
}

/// Returns the work tree to which a path in the folder of all trees belongs: the tree itself, its
/// lock, or what is left of it.
pub(super) fn tree_beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let ends = [LOCK, TRASH, ADOPTED];
    let tree = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    path.with_file_name(tree)
}

fn beside(tree: &Path, end: &str) -> PathBuf {
    let mut name = tree.file_name().unwrap_or_default().to_owned();
    name.push(end);
    tree.with_file_name(name)
}

/// Returns a file name that is unique for the worker. Ids with unusual characters are escaped, and
/// long ones are cut and get a hash.
fn folder_name(worker: &WorkerId) -> String {
    let name = escaped(worker.as_str());
    let taken = [LOCK, TRASH, ADOPTED].iter().any(|end| name.ends_with(end));
    if name.len() <= NAME_BYTES && !taken {
        return name;
    }
    let hash = Sha256::digest(worker.as_str().as_bytes());
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{hash}", &name[..name.len().min(NAME_BYTES)])
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.bytes().fold(String::new(), |mut name, byte| {
        match plain(byte) {
            true => name.push(char::from(byte)),
            false => name.push_str(&format!("%{byte:02X}")),
        }
        name
    })
}

/// The OS lock of a work tree. It lasts until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct TreeLock {
    _file: File,
    path: PathBuf,
}

impl TreeLock {
    /// Takes the lock, and waits for it for some time.
    pub(super) fn wait(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        let start = Instant::now();
        loop {
            let taken = Self::take(path.to_owned())?;
            if taken.is_some() || start.elapsed() >= patience {
                return Ok(taken);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Takes the lock; `None` if another holds it.
    pub(super) fn take(path: PathBuf) -> io::Result<Option<Self>> {
        loop {
            let file = open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The holder before may have removed the file after it was opened here.
            let same = |found: fs::Metadata| {
                file.metadata()
                    .is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
            };
            if fs::symlink_metadata(&path).is_ok_and(same) {
                return Ok(Some(Self { _file: file, path }));
            }
        }
    }

    /// Removes the file and releases the lock.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(no_follow).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_names_are_plain_and_unique() {
        let name = |text: &str| folder_name(&WorkerId::parse(text).unwrap());
        assert_eq!(name("host-12.1"), "host-12.1");
        assert_eq!(name("a b:c"), "a%20b%3Ac");
        let names = [name("a"), name("a.lock"), name("a.removed"), name("a%20b"), name("a b")];
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
        assert!(!name("a.lock").ends_with(LOCK));
        let long = name(&"é".repeat(128));
        assert!(long.len() < 200, "{long}");
        assert_ne!(long, name(&format!("{}x", "é".repeat(127))));
    }

    #[test]
    fn a_lock_excludes_another_and_survives_the_removal_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.lock");
        let first = TreeLock::take(path.clone()).unwrap().unwrap();
        assert!(TreeLock::take(path.clone()).unwrap().is_none());
        first.remove().unwrap();
        drop(first);
        let second = TreeLock::take(path.clone()).unwrap().unwrap();
        assert!(TreeLock::take(path).unwrap().is_none());
        drop(second);
    }
}
