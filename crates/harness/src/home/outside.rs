//! The places of the journal of a state root, and of the key that seals its ledger. They are
//! outside of the root, where an agent that cleans its work tree does not find them.
//!
//! The journal is in the git directory of the work tree around the root, which is found by looking
//! at files and never by asking git. Without one, it is in the user's state directory, where the
//! key always is.

use std::{
    fs,
    io::{self, Read as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use harness_core::format::Key;

use super::{
    folder::{Folder, failed},
    root_hash,
};

/// Our folder in a git directory and in a state directory.
const OURS: &str = "harness";
const ROOTS: &str = "roots";
const KEY: &str = "key";
const TRUST: &str = "trust";
const CONFIG: &str = "config.toml";
/// A limit above the size of any `.git` file that git writes.
const POINTER_BYTES_MAX: u64 = 16 * 1024;

/// A folder of ours outside of the state root that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    /// The folder that contains ours. It was not created by us.
    anchor: PathBuf,
    anchored: Anchored,
    names: Vec<String>,
}

/// Whether the containing folder is created when it is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchored {
    /// It is created: the user's state directory.
    Made,
    /// It is not created: a git directory, without which there is no repository.
    Found,
}

impl Outside {
    /// Returns the folder of the journal of `root`, which must be canonical.
    pub fn of_journal(root: &Path, state_home: Option<&Path>) -> Option<Self> {
        in_git(root).or_else(|| {
            let mut outside = Self::of_root(root, state_home?);
            // The name identifies this very directory. If it is removed, a new directory of the
            // same name does not get its journal.
            outside.names.push(directory_name(root)?);
            Some(outside)
        })
    }

    /// Returns the folder of `root` in the user's state directory.
    pub fn of_root(root: &Path, state_home: &Path) -> Self {
        Self {
            anchor: state_home.to_owned(),
            anchored: Anchored::Made,
            names: vec![OURS.to_owned(), ROOTS.to_owned(), root_hash(root)],
        }
    }

    /// Returns whether there is a journal.
    pub fn has_journal(&self) -> bool {
        self.path().join(Self::JOURNAL).symlink_metadata().is_ok_and(|found| found.is_file())
    }

    /// The name of the journal in it.
    pub const JOURNAL: &'static str = "journal";

    /// The name of the file that says which version of a ledger in a database was seen last.
    pub const LAST_SEEN: &'static str = "last-seen";

    /// Returns the folder for git's settings at a claim.
    pub fn settings(&self) -> PathBuf {
        self.path().join("settings")
    }

    /// Returns the folder for the rules of judging of each claim.
    pub fn claims(&self) -> PathBuf {
        self.path().join("claims")
    }

    /// Returns the folder for the terms of each run.
    pub fn terms(&self) -> PathBuf {
        self.path().join("terms")
    }

    /// Returns its path, whether it exists or not.
    pub fn path(&self) -> PathBuf {
        self.names.iter().fold(self.anchor.clone(), |path, name| path.join(name))
    }

    /// Opens it; `None` if it does not exist.
    pub(crate) fn open(&self) -> io::Result<Option<Folder>> {
        let mut folder = match Folder::open_private(&self.anchor) {
            Ok(folder) => folder,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        for name in &self.names {
            let Some(child) = folder.child(name)? else { return Ok(None) };
            folder = child;
        }
        Ok(Some(folder))
    }

    /// Creates the missing folders, for this user alone.
    pub(crate) fn make(&self) -> io::Result<Folder> {
        if self.anchored == Anchored::Made {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.anchor);
            made.map_err(|e| failed(&self.anchor.display().to_string(), "make", e))?;
        }
        let anchor = Folder::open_private(&self.anchor)?;
        self.names.iter().try_fold(anchor, |folder, name| folder.make(name))
    }

    /// Removes the folder with its contents; `false` if it does not exist.
    pub fn remove(&self) -> io::Result<bool> {
        match fs::remove_dir_all(self.path()) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(failed(&self.path().display().to_string(), "remove", e)),
        }
    }
}

/// Returns the folder in the user's state directory for what this user agreed to run.
pub fn trust_folder(state_home: &Path) -> PathBuf {
    state_home.join(OURS).join(TRUST)
}

/// Returns the configuration of this user, in the user's configuration directory.
pub fn user_config(config_home: &Path) -> PathBuf {
    config_home.join(OURS).join(CONFIG)
}

/// Returns a name that distinguishes a directory from a later one of the same path, which often
/// gets the same inode.
fn directory_name(root: &Path) -> Option<String> {
    let found = root.symlink_metadata().ok()?;
    let since = found.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made = since.map_or(0, |since| since.as_nanos());
    Some(format!("{:x}-{:x}-{made:x}", found.dev(), found.ino()))
}

/// Returns the folder in the git directory of the work tree around `root`.
fn in_git(root: &Path) -> Option<Outside> {
    let (top, git) = git_directory(root)?;
    let below = root.strip_prefix(top).ok()?;
    let names = vec![OURS.to_owned(), root_hash(below)];
    Some(Outside { anchor: git, anchored: Anchored::Found, names })
}

/// Returns the top of the work tree around `directory`, and its own git directory, which must
/// belong to this user. `directory` must be canonical.
pub fn git_directory(directory: &Path) -> Option<(&Path, PathBuf)> {
    directory.ancestors().find_map(|top| {
        let git = top.join(".git");
        let found = git.symlink_metadata().ok()?;
        let git = if found.is_dir() { git } else { pointed_to(top, &git, &found)? };
        let whole = git.join("HEAD").symlink_metadata().is_ok();
        let ours = git.metadata().is_ok_and(|m| m.uid() == rustix::process::geteuid().as_raw());
        (whole && ours).then_some((top, git))
    })
}

/// Reads the file of a linked work tree or a submodule that names its git directory.
fn pointed_to(top: &Path, file: &Path, found: &fs::Metadata) -> Option<PathBuf> {
    if !found.is_file() || found.len() > POINTER_BYTES_MAX {
        return None;
    }
    let text = fs::read(file).ok()?;
    let path = text.strip_prefix(b"gitdir: ")?.trim_ascii_end();
    Some(top.join(Path::new(std::ffi::OsStr::from_bytes(path))))
}

/// Returns the key of `root`. It is created the first time.
pub(crate) fn key(root: &Path, state_home: &Path) -> io::Result<Key> {
    let folder = Outside::of_root(root, state_home).make()?;
    if let Some(key) = read_key(&folder)? {
        return Ok(key);
    }
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let made = Key::new(bytes);
    // If two processes do this, both use the key of the first.
    folder.put_first(KEY, made.to_text().as_bytes())?;
    if let Some(first) = read_key(&folder)? {
        return Ok(first);
    }
    // A damaged key cannot seal anything and is replaced.
    folder.replace(KEY, made.to_text().as_bytes())?;
    Ok(made)
}

fn read_key(folder: &Folder) -> io::Result<Option<Key>> {
    let bytes = folder.read_small(KEY, 128)?;
    Ok(bytes.and_then(|bytes| Key::parse(&String::from_utf8_lossy(&bytes))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_journal_is_in_the_git_directory_of_the_work_tree() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let deep = top.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        if git_directory(&top).is_some() {
            // The temporary directory lies in a repository.
            return;
        }
        assert_eq!(Outside::of_journal(&deep, None), None);
        let state = top.join("state");
        let kept = Outside::of_journal(&deep, Some(&state)).unwrap();
        assert!(kept.path().starts_with(state.join("harness/roots")));
        fs::remove_dir(&deep).unwrap();
        fs::create_dir(&deep).unwrap();
        assert_ne!(Outside::of_journal(&deep, Some(&state)).unwrap(), kept, "another directory");
        fs::create_dir(top.join(".git")).unwrap();
        fs::write(top.join(".git/HEAD"), "").unwrap();
        let in_git = Outside::of_journal(&deep, Some(&state)).unwrap();
        assert_eq!(in_git.path(), top.join(".git/harness").join(root_hash(Path::new("a/b"))));
        fs::write(top.join("a/.git"), "gitdir: ../.git\n").unwrap();
        let linked = Outside::of_journal(&deep, None).unwrap();
        let named = top.join("a/../.git/harness").join(root_hash(Path::new("b")));
        assert_eq!(linked.path(), named);
    }

    #[test]
    fn a_key_is_made_once_and_is_private() {
        let place = tempfile::tempdir().unwrap();
        let (root, state) = (place.path(), place.path().join("state"));
        let made = key(root, &state).unwrap().to_text();
        assert_eq!(key(root, &state).unwrap().to_text(), made);
        let path = Outside::of_root(root, &state).path().join(KEY);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "broken").unwrap();
        assert_ne!(key(root, &state).unwrap().to_text(), made);
    }
}
