//! A private index in which trees are built, so that the user's index is never touched.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use harness_core::TreeId;

use super::{
    WorkspaceError,
    git::Git,
    object::{Listing, tree_id},
    own::OwnFiles,
    path::{RepoPath, nul_separated},
};
use crate::home::FileStamp;

/// The prefix of such folders. Leftovers of killed processes are found by it.
pub(super) const SCRATCH: &str = "harness-tmp-";

/// A folder inside the git directory, or aside if that cannot be written. It is removed with the
/// value.
#[derive(Debug)]
pub(super) struct PrivateIndex {
    folder: tempfile::TempDir,
    file: PathBuf,
    /// The stamp of the user's index when it was copied.
    users: Option<FileStamp>,
}

impl PrivateIndex {
    /// Creates a folder for other short-lived files, with an empty index.
    pub(super) fn scratch(git: &Git) -> Result<Self, WorkspaceError> {
        let folder = tempfile::Builder::new().prefix(SCRATCH).tempdir_in(git.scratch_dir())?;
        let file = folder.path().join("index");
        Ok(Self { folder, file, users: None })
    }

    /// Creates a copy of the user's index with its cached stat data, so that only changed files are
    /// read again. The copy keeps the time of the original. By that time, git recognizes files that
    /// changed too soon after the index was written for their stat data to show it.
    pub(super) fn copy_of_users(git: &Git) -> Result<Self, WorkspaceError> {
        let mut index = Self::scratch(git)?;
        let mut users = match File::open(git.git_dir.join("index")) {
            Ok(users) => users,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(index),
            Err(error) => return Err(error.into()),
        };
        let mut copy = File::create(&index.file)?;
        io::copy(&mut users, &mut copy)?;
        let found = users.metadata()?;
        copy.set_modified(found.modified()?)?;
        index.users = Some(FileStamp::of(&found));
        Ok(index)
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Sets the entries of `paths` to the content of the work tree, deletions included. Paths are
    /// literal, and ignore rules do not matter.
    pub(super) fn take<'a>(
        &self,
        git: &Git,
        paths: impl IntoIterator<Item = &'a RepoPath>,
    ) -> Result<(), WorkspaceError> {
        self.update(git, &["--add", "--remove", "--replace"], paths)
    }

    /// Sets the given entries.
    pub(super) fn set(&self, git: &Git, listing: &Listing) -> Result<(), WorkspaceError> {
        if listing.is_empty() {
            return Ok(());
        }
        let mut input = Vec::new();
        for (path, entry) in listing {
            input.extend_from_slice(format!("{} {}\t", entry.mode, entry.object).as_bytes());
            input.extend_from_slice(path.bytes());
            input.push(0);
        }
        let call = git.write("update-index").index(&self.file).args(["-z", "--index-info"]);
        call.input(input).output().map(drop)
    }

    /// Removes the entries of `paths`, whatever the work tree has.
    pub(super) fn remove<'a>(
        &self,
        git: &Git,
        paths: impl IntoIterator<Item = &'a RepoPath>,
    ) -> Result<(), WorkspaceError> {
        self.update(git, &["--force-remove"], paths)
    }

    fn update<'a>(
        &self,
        git: &Git,
        how: &[&str],
        paths: impl IntoIterator<Item = &'a RepoPath>,
    ) -> Result<(), WorkspaceError> {
        let input = nul_separated(paths);
        if input.is_empty() {
            return Ok(());
        }
        let call = git.write("update-index").index(&self.file).args(how).args(["-z", "--stdin"]);
        call.input(input).output().map(drop)
    }

    /// Removes our files, if the user's index has any.
    pub(super) fn drop_ours(&self, git: &Git, own: &OwnFiles) -> Result<(), WorkspaceError> {
        match git.tracked()?.is_some_and(|tracked| !tracked.ours) {
            true => Ok(()),
            false => self.drop_paths(git, &own.pathspecs()),
        }
    }

    fn drop_paths(&self, git: &Git, paths: &[OsString]) -> Result<(), WorkspaceError> {
        if paths.is_empty() || !self.file.exists() {
            return Ok(());
        }
        let call = git.write("rm").index(&self.file);
        let call = call.args(["--cached", "-r", "-f", "-q", "--sparse", "--ignore-unmatch", "--"]);
        call.args(paths).output().map(drop)
    }

    pub(super) fn read_tree(&self, git: &Git, treeish: &str) -> Result<(), WorkspaceError> {
        let call = git.write("read-tree").index(&self.file).args(["--end-of-options", treeish]);
        call.output().map(drop)
    }

    /// Replaces the user's index with this updated copy, as git would: by its lock, and only if the
    /// user's index is still the copied one. Otherwise nothing changes. Returns whether it was
    /// replaced.
    pub(super) fn install(&self, git: &Git) -> bool {
        let (index, lock) = (git.git_dir.join("index"), git.git_dir.join("index.lock"));
        if self.users.is_none() || fs::hard_link(&self.file, &lock).is_err() {
            return false;
        }
        if FileStamp::at(&index) == self.users && fs::rename(&lock, &index).is_ok() {
            return true;
        }
        let _ = fs::remove_file(&lock);
        false
    }

    pub(super) fn write_tree(&self, git: &Git) -> Result<TreeId, WorkspaceError> {
        tree_id(&git.write("write-tree").index(&self.file).line()?)
    }
}
