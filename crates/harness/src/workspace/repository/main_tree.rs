//! The main tree, which belongs to the user. It moves together with the branch on which results
//! land, and only if nothing of the user can be lost.
//!
//! While it moves, its `index.lock` is held, so that no git command of the user can come in between.
//! The lock is a hard link to a file in a folder of ours whose own OS lock shows whether the process
//! that made it is alive. So a lock that a crash left behind is recognized and removed.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use harness_core::CommitId;

use super::{
    tree::remove_file,
    tree_move::{Landing, TreeMove, remove_stale_lock},
};
use crate::workspace::{
    WorkspaceError,
    git::Git,
    index::SCRATCH,
    object::{Change, Contents, Hashing, absent, hash_files},
    own::OwnFiles,
    path::RepoPath,
    preflight::UnderWay,
    restore,
    status::Look,
};

/// The prefix of the folder that belongs to a held lock.
pub(super) const FOLDER: &str = "harness-landing-";
/// The file in it that `index.lock` is a link to.
pub(super) const TWIN: &str = "twin";
/// The file in it whose OS lock shows that the process is alive.
pub(super) const ALIVE: &str = "alive";
/// The file in it that names the branch and the two commits of the move.
pub(super) const MOVE: &str = "move";
/// The file in it that shows that another process brings the move to an end.
pub(super) const FINISHING: &str = "finishing";
/// The longest wait for an editor's `git status` in the background.
const PATIENCE: Duration = Duration::from_millis(500);
/// The longest wait for another landing, or for git before a landing is finished.
pub(super) const LANDING: Duration = Duration::from_secs(10);

/// The main tree with its index locked.
pub(super) struct HeldTree {
    git: Git,
    folder: PathBuf,
    alive: File,
    lock: PathBuf,
    index: PathBuf,
}

/// The reason why the main tree must not be touched, for people.
pub(super) type Obstacle = String;

impl HeldTree {
    /// Locks the index of the main tree and copies it. Nothing else changes.
    pub(super) fn take(
        git: &Git,
        own: &OwnFiles,
        planned: &TreeMove,
    ) -> Result<Result<Self, Obstacle>, WorkspaceError> {
        let held = Self::prepare(git, planned)?;
        if let Err(why) = held.lock_index(own)? {
            return Ok(Err(why));
        }
        let users = git.git_dir.join("index");
        match fs::copy(&users, &held.index) {
            Ok(_) => {
                let modified = fs::metadata(&users)?.modified()?;
                File::options().append(true).open(&held.index)?.set_modified(modified)?;
            }
            Err(error) if absent(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Ok(held))
    }

    /// Creates the folder. It gets its name when it is locked, so that nobody takes it for one of a
    /// process that is gone.
    fn prepare(git: &Git, planned: &TreeMove) -> io::Result<Self> {
        let scratch = tempfile::Builder::new().prefix(SCRATCH).tempdir_in(&git.git_dir)?;
        let alive = File::create(scratch.path().join(ALIVE))?;
        alive.lock()?;
        File::create(scratch.path().join(TWIN))?;
        fs::write(scratch.path().join(MOVE), planned.text())?;
        let name = scratch.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = name.strip_prefix(SCRATCH).unwrap_or(&name);
        let folder = git.git_dir.join(format!("{FOLDER}{name}"));
        fs::rename(scratch.path(), &folder)?;
        let _moved = scratch.keep();
        let (lock, index) = (git.git_dir.join("index.lock"), folder.join("index"));
        Ok(Self { git: git.clone(), folder, alive, lock, index })
    }

    fn lock_index(&self, own: &OwnFiles) -> io::Result<Result<(), Obstacle>> {
        let start = Instant::now();
        loop {
            let landing = remove_stale_lock(&self.git, own)?;
            // A process that brings the move of another one to an end does not hold the lock.
            if landing == Landing::None {
                match fs::hard_link(self.folder.join(TWIN), &self.lock) {
                    Ok(()) => return Ok(Ok(())),
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Ok(Err(format!("the index cannot be locked: {error}")));
                    }
                    Err(_) => {}
                }
            }
            let patience = match landing {
                Landing::Other => LANDING,
                Landing::None => PATIENCE,
            };
            if start.elapsed() >= patience {
                let lock = self.lock.display();
                return Ok(Err(format!("{lock} exists, so git may be running there")));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns an obstacle if a tracked file differs from HEAD, or an operation is under way. `head`
    /// is the commit that HEAD must name.
    pub(super) fn obstacle(
        &self,
        own: &OwnFiles,
        head: &CommitId,
    ) -> Result<Option<Standing>, WorkspaceError> {
        if let Some(under_way) = UnderWay::find(&self.git) {
            return Ok(Some(Standing::InTheWay(under_way.refusal().to_string())));
        }
        // With permission to write, git also stores which files are unchanged. Otherwise the move
        // would take a file for changed whose time alone is new.
        let call = self.git.write("status").index(&self.index).args(["--porcelain=v2", "-z"]);
        let call = call.args(["--branch", "--no-renames", "--untracked-files=no"]);
        let output = call.arg("--ignore-submodules=dirty").output()?;
        let look = Look::parse(&output, own)?;
        if look.head.as_ref() != Some(head) {
            return Ok(Some(Standing::Moved));
        }
        Ok(look.changed.first().map(|changed| {
            let path = changed.path.shown();
            Standing::InTheWay(format!("{path} has changes that are in no commit"))
        }))
    }

    /// Returns a file of the user that the move would overwrite although git does not track it. Git
    /// itself would overwrite those that it ignores.
    pub(super) fn in_the_way(&self, changes: &[Change]) -> io::Result<Option<Obstacle>> {
        let removed = |path: &RepoPath| {
            changes.iter().any(|change| change.path == *path && change.before.is_some())
        };
        let found = |path: &RepoPath| fs::symlink_metadata(path.under(&self.git.top_level));
        for change in changes.iter().filter(|change| change.before.is_none()) {
            let above = change.path.parents().find(|parent| {
                found(parent).is_ok_and(|found| !found.is_dir()) && !removed(parent)
            });
            let there = match (above, found(&change.path)) {
                (Some(above), _) => Some(above),
                (None, Err(error)) if absent(&error) => None,
                (None, Err(error)) => return Err(error),
                (None, Ok(there)) if !there.is_dir() => Some(change.path.clone()),
                (None, Ok(_)) => self.untracked_below(&change.path, &removed)?,
            };
            if let Some(path) = there {
                return Ok(Some(format!("{} is in the way", path.shown())));
            }
        }
        Ok(None)
    }

    /// Returns a file below a folder that does not go away with the move.
    fn untracked_below(
        &self,
        folder: &RepoPath,
        removed: &dyn Fn(&RepoPath) -> bool,
    ) -> io::Result<Option<RepoPath>> {
        for entry in fs::read_dir(folder.under(&self.git.top_level))? {
            let entry = entry?;
            let path = folder.join(&entry.file_name());
            let found = match entry.file_type()?.is_dir() {
                true => self.untracked_below(&path, removed)?,
                false => Some(path).filter(|path| !removed(path)),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Moves files and the copy of the index. If git refuses, nothing has changed. If it fails in the
    /// middle, because the disk is full, [`HeldTree::take_back`] is due.
    pub(super) fn walk(
        &self,
        from: &CommitId,
        to: &CommitId,
    ) -> Result<Result<(), Obstacle>, WorkspaceError> {
        let call = self.git.write("read-tree").index(&self.index).args(["-m", "-u"]);
        let call = call.args([from.as_str(), to.as_str()]).holding(self.alive.try_clone()?);
        let ran = call.run()?;
        if ran.code == Some(0) {
            return Ok(Ok(()));
        }
        let words = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
        Ok(Err(words.strip_prefix("error: ").unwrap_or(&words).to_owned()))
    }

    /// Brings the files that a move has already brought to `to` back to `from`. Other files stay, and
    /// so does the user's index.
    pub(super) fn take_back(
        &self,
        from: &CommitId,
        changes: &[Change],
    ) -> Result<(), WorkspaceError> {
        let paths = changes.iter().map(|change| &change.path);
        let here = hash_files(&self.git, Hashing::Compare, Contents::Cleaned, paths)?;
        let moved = |change: &&Change| {
            change.after.is_some() && here.get(&change.path) == change.after.as_ref()
        };
        let removed = |change: &&Change| {
            let file = change.path.under(&self.git.top_level);
            change.after.is_none() && fs::symlink_metadata(file).is_err_and(|why| absent(&why))
        };
        let mut back = Vec::new();
        for change in changes.iter().filter(|change| moved(change) || removed(change)) {
            match &change.before {
                Some(_) => back.push(Change { after: change.before.clone(), ..change.clone() }),
                None => remove_file(&self.git.top_level, &change.path)?,
            }
        }
        restore::write(&self.git, from.as_str(), &back.iter().collect::<Vec<_>>()).map(drop)
    }

    /// Replaces the user's index by the copy and unlocks it.
    pub(super) fn install(self) -> Result<(), WorkspaceError> {
        Ok(fs::rename(&self.index, self.git.git_dir.join("index"))?)
    }
}

impl Drop for HeldTree {
    fn drop(&mut self) {
        if is_same_file(&self.lock, &self.folder.join(TWIN)) {
            let _ = fs::remove_file(&self.lock);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The reason why the main tree does not move.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// HEAD names another commit.
    Moved,
    /// Something of the user is in the way.
    InTheWay(Obstacle),
}

/// Returns whether two paths lead to one file.
pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((id(one), id(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::workspace::{discover, object::diff_trees, rescue::resolve};

    fn run(root: &Path, arguments: &[&str]) {
        let mut command = Command::new("git");
        crate::workspace::git::without_git_variables(&mut command);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        command.args(["-c", "user.name=U", "-c", "user.email=u@example.org"]);
        let done = command.current_dir(root).args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn a_move_that_fails_halfway_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
        run(root, &["init", "--quiet"]);
        ["changed", "untouched", "removed", "edited"].iter().for_each(|path| write(path, "old"));
        run(root, &["add", "-A"]);
        run(root, &["commit", "--quiet", "-m", "from"]);
        let git = discover::repository(root).unwrap();
        let from = resolve(&git, "HEAD").unwrap().unwrap();
        ["changed", "untouched", "edited", "added"].iter().for_each(|path| write(path, "new"));
        fs::remove_file(root.join("removed")).unwrap();
        run(root, &["add", "-A"]);
        run(root, &["commit", "--quiet", "-m", "to"]);
        let to = resolve(&git, "HEAD").unwrap().unwrap();
        run(root, &["reset", "--quiet", "--hard", from.as_str()]);

        let own = OwnFiles::new(&git.top_level, &git.top_level);
        let reference = "refs/heads/main".to_owned();
        let planned = TreeMove { reference, from: from.clone(), to: to.clone() };
        let held = HeldTree::take(&git, &own, &planned).unwrap().unwrap();
        ["changed", "added"].iter().for_each(|path| write(path, "new"));
        fs::remove_file(root.join("removed")).unwrap();
        write("edited", "by the user");
        let changes = diff_trees(&git, from.as_str(), to.as_str()).unwrap();
        held.take_back(&from, &changes).unwrap();
        drop(held);
        let read = |path: &str| fs::read_to_string(root.join(path)).ok();
        for path in ["changed", "untouched", "removed"] {
            assert_eq!(read(path).as_deref(), Some("old"), "{path}");
        }
        assert_eq!(read("added"), None);
        assert_eq!(read("edited").as_deref(), Some("by the user"));
        assert!(!git.git_dir.join("index.lock").exists());
        let left = fs::read_dir(&git.git_dir).unwrap().flatten();
        let ours = |name: std::ffi::OsString| name.to_string_lossy().starts_with(FOLDER);
        assert!(!left.map(|entry| entry.file_name()).any(ours));
    }
}
