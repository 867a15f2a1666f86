//! The entries of linked work trees that git keeps below `worktrees` of its directory.
//!
//! They are read and repaired as files, because git's own commands refuse or remove an entry whose
//! folder is missing, and an agent can change the `.git` file of its tree.

use std::{
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use harness_core::CommitId;

use crate::workspace::{
    WorkspaceError,
    git::{Git, failed},
    object::absent,
};

/// The file in an entry that shows that its tree was once complete. It holds the digest of the init
/// script that ran there, if any.
const READY: &str = "harness-ready";

/// An entry of git for a linked work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeEntry {
    /// The git directory of the work tree.
    pub(super) git_dir: PathBuf,
}

/// Returns whether a git directory is that of a worker's tree.
pub(in crate::workspace) fn is_worker_tree(git_dir: &Path) -> bool {
    git_dir.join(READY).is_file()
}

impl TreeEntry {
    /// Returns the entry of the work tree at `tree`, a path whose folder is canonical.
    pub(super) fn find(git: &Git, tree: &Path) -> io::Result<Option<Self>> {
        let folder = git.common_dir().join("worktrees");
        if let Some(name) = tree.file_name() {
            // Git names an entry after the folder of the work tree, if that name is free.
            let usual = Self { git_dir: folder.join(name) };
            if usual.tree().as_deref() == Some(tree) {
                return Ok(Some(usual));
            }
        }
        Ok(Self::all(git)?.into_iter().find(|entry| entry.tree().as_deref() == Some(tree)))
    }

    /// Returns all entries.
    pub(super) fn all(git: &Git) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(git.common_dir().join("worktrees")) {
            Ok(entries) => entries,
            Err(error) if absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let folders = entries.map(|entry| Ok(Self { git_dir: entry?.path() }));
        folders.collect()
    }

    /// Returns the work tree that the entry names, which may be missing.
    pub(super) fn tree(&self) -> Option<PathBuf> {
        let pointer = self.git_dir.join(first_line(&self.git_dir.join("gitdir"))?);
        let tree = pointer.parent()?;
        let folder = tree.parent()?;
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Some(folder.join(tree.file_name()?))
    }

    /// Returns whether the tree was once complete, so that an agent may have worked in it.
    pub(super) fn is_ready(&self) -> bool {
        is_worker_tree(&self.git_dir)
    }

    /// Returns the digest of the init script that ran in the tree.
    pub(super) fn init(&self) -> Option<String> {
        fs::read_to_string(self.git_dir.join(READY)).ok()
    }

    /// Declares the tree complete, with the digest of the init script that ran in it.
    pub(super) fn set_ready(&self, init: &str) -> io::Result<()> {
        fs::write(self.git_dir.join(READY), init)
    }

    /// Makes the `.git` file of the tree name this entry.
    pub(super) fn repair(&self, tree: &Path) -> io::Result<()> {
        let pointer = tree.join(".git");
        if pointed_at(tree).as_deref() != Some(self.git_dir.as_path()) {
            remove_any(&pointer)?;
            let mut text = b"gitdir: ".to_vec();
            text.extend(self.git_dir.as_os_str().as_bytes());
            text.push(b'\n');
            fs::write(&pointer, text)?;
        }
        Ok(())
    }

    /// Removes the locks of git processes that were killed. The caller holds the lock of the tree
    /// and nothing runs there.
    pub(super) fn remove_locks(&self) -> io::Result<()> {
        ["index.lock", "HEAD.lock"].iter().try_for_each(|lock| remove_any(&self.git_dir.join(lock)))
    }

    /// Removes the entry. Its tree must be gone.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove_any(&self.git_dir)
    }

    /// Returns the ref that HEAD of the tree names; `None` if HEAD is on no branch or unreadable.
    pub(super) fn head_ref(&self) -> Option<String> {
        head_ref(&self.git_dir)
    }
}

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// The number of tries to add an entry.
const TRIES: u32 = 5;

/// Creates a linked work tree with its entry. HEAD is on no branch, and git does not prune the entry.
///
/// Git reads all entries meanwhile, and fails if another process has just created one and not yet
/// written its files. Then it is tried again.
pub(super) fn add(
    git: &Git,
    path: &Path,
    commit: &CommitId,
    more: &[&str],
) -> Result<(), WorkspaceError> {
    for try_number in 1.. {
        let call = git.write("worktree").args(["add", "--quiet", "--detach", "--lock"]).args(more);
        let ran = call.arg(path).arg(commit.as_str()).run()?;
        if ran.code == Some(0) {
            break;
        }
        let passing = String::from_utf8_lossy(&ran.stderr).contains("worktrees/");
        if !passing || try_number == TRIES {
            return Err(failed("worktree", &ran.stderr));
        }
        if let Some(half_made) = TreeEntry::find(git, path)? {
            half_made.remove()?;
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Returns the ref that HEAD names in a git directory.
pub(super) fn head_ref(git_dir: &Path) -> Option<String> {
    let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
    Some(head.trim_end().strip_prefix("ref: ")?.to_owned())
}

/// Returns the git directory that the `.git` file of a work tree names.
pub(in crate::workspace) fn pointed_at(tree: &Path) -> Option<PathBuf> {
    let pointer = tree.join(".git");
    if !fs::symlink_metadata(&pointer).ok()?.is_file() {
        return None;
    }
    let line = first_line(&pointer)?;
    let path = line.as_os_str().as_bytes().strip_prefix(b"gitdir: ")?;
    let path = tree.join(std::ffi::OsStr::from_bytes(path));
    Some(path.canonicalize().unwrap_or(path))
}

fn first_line(file: &Path) -> Option<PathBuf> {
    let mut bytes = fs::read(file).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    bytes.truncate(end);
    (!bytes.is_empty()).then(|| std::ffi::OsString::from_vec(bytes).into())
}

/// Removes a file, a link or a whole folder, if it exists.
pub(super) fn remove_any(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => match fs::remove_dir_all(path) {
            Err(error) if !absent(&error) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        },
        Ok(_) => fs::remove_file(path),
        Err(error) if absent(&error) => Ok(()),
        Err(error) => Err(error),
    }
}
