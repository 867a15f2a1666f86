//! The files that git does not bring into a new work tree: copied or linked from the main tree.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, FileTimes},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use super::{TreeSettings, entry::remove_any, pattern};
use crate::workspace::{
    GitWorkspace, WorkspaceError,
    git::{Git, failed},
    index_file::IndexFile,
    object::absent,
    own::OwnFiles,
    path::{RepoPath, nul_separated, records},
};

/// The file that names further files to copy, with the syntax of `.gitignore`.
const INCLUDE: &str = ".worktreeinclude";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provision {
    Copy,
    Link,
}

/// The paths to bring, and the main tree that has them.
#[derive(Debug)]
pub(super) struct Provisions {
    main: PathBuf,
    paths: BTreeMap<RepoPath, Provision>,
}

impl Provisions {
    /// Returns the value of a tree into which nothing is brought.
    pub(super) fn none() -> Self {
        Self { main: PathBuf::new(), paths: BTreeMap::new() }
    }

    /// Finds the paths in the main tree.
    pub(super) fn find(
        main: &GitWorkspace,
        settings: &TreeSettings,
    ) -> Result<Self, WorkspaceError> {
        let (git, own) = (&main.git, &main.own);
        let mut paths = BTreeMap::new();
        for glob in &settings.copy {
            for path in pattern::matches(&git.top_level, glob)? {
                add_files(git, own, &path, &mut paths)?;
            }
        }
        for path in included(git)? {
            add_files(git, own, &path, &mut paths)?;
        }
        for glob in &settings.link {
            for path in pattern::matches(&git.top_level, glob)? {
                if !own.own(path.bytes()) {
                    paths.insert(path, Provision::Link);
                }
            }
        }
        Ok(Self { main: git.top_level.clone(), paths })
    }

    /// Returns whether the file at `path` is exactly what was brought, so that it is no work of an
    /// agent.
    pub(super) fn is_unchanged(&self, path: &RepoPath, tree: &Path) -> bool {
        let (from, to) = (path.under(&self.main), path.under(tree));
        match self.paths.get(path) {
            Some(Provision::Copy) => is_copy(&from, &to).unwrap_or(false),
            Some(Provision::Link) => fs::read_link(&to).is_ok_and(|target| target == from),
            None => false,
        }
    }

    /// Returns the paths that git does not track in the tree. If the index cannot be read, all of
    /// them may be tracked.
    pub(super) fn untracked(&self, git: &Git) -> Result<BTreeSet<Vec<u8>>, WorkspaceError> {
        let index = IndexFile::read(git)?;
        let mut tracked = Vec::new();
        if index.entries(|entry| tracked.push(entry.path)).is_none() {
            return Ok(BTreeSet::new());
        }
        let untracked = self.paths.keys().filter(|path| !is_tracked(&tracked, path));
        Ok(untracked.map(|path| path.bytes().to_vec()).collect())
    }

    /// Brings every path that is missing or was changed. A path that git tracks in the tree stays as
    /// git has it. Returns whether anything was written.
    pub(super) fn bring(&self, git: &Git) -> Result<bool, WorkspaceError> {
        let tree = &git.top_level;
        let missing = self.paths.iter().filter(|(path, _)| !self.is_unchanged(path, tree));
        let mut missing: Vec<_> = missing.collect();
        if missing.is_empty() {
            return Ok(false);
        }
        let index = IndexFile::read(git)?;
        let mut tracked = Vec::new();
        let known = index.entries(|entry| tracked.push(entry.path));
        if known.is_none() {
            // Another format of the index. Whatever exists is taken for tracked.
            missing.retain(|(path, _)| fs::symlink_metadata(path.under(tree)).is_err());
            tracked.clear();
        }
        let mut written = false;
        for (path, provision) in missing {
            if is_tracked(&tracked, path) {
                continue;
            }
            let (from, to) = (path.under(&self.main), path.under(tree));
            let occupied = fs::symlink_metadata(&to).is_ok();
            if *provision == Provision::Link && occupied {
                // A program of the task before replaced the link, as package managers do.
                continue;
            }
            make_folders(tree, path)?;
            remove_any(&to)?;
            match provision {
                Provision::Copy => copy(&from, &to)?,
                Provision::Link => symlink(&from, &to)?,
            }
            written = true;
        }
        Ok(written)
    }
}

/// Returns whether git tracks the path, or a file below or above it. `tracked` is sorted.
fn is_tracked(tracked: &[&[u8]], path: &RepoPath) -> bool {
    let inside = [path.bytes(), b"/"].concat();
    let at = tracked.partition_point(|entry| *entry < inside.as_slice());
    let below = tracked.get(at).is_some_and(|entry| entry.starts_with(&inside));
    let exact = |path: &[u8]| tracked.binary_search(&path).is_ok();
    below || exact(path.bytes()) || path.parents().any(|parent| exact(parent.bytes()))
}

/// Adds a file, or the files below a folder.
fn add_files(
    git: &Git,
    own: &OwnFiles,
    path: &RepoPath,
    paths: &mut BTreeMap<RepoPath, Provision>,
) -> io::Result<()> {
    if own.own(path.bytes()) {
        return Ok(());
    }
    let place = path.under(&git.top_level);
    let found = match fs::symlink_metadata(&place) {
        Ok(found) => found,
        Err(error) if absent(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.is_dir() {
        // A pipe or a device has no content to copy.
        if found.is_file() || found.is_symlink() {
            paths.insert(path.clone(), Provision::Copy);
        }
        return Ok(());
    }
    for entry in fs::read_dir(&place)? {
        let name = entry?.file_name();
        if name != ".git" {
            add_files(git, own, &path.join(&name), paths)?;
        }
    }
    Ok(())
}

/// Returns the ignored files that `.worktreeinclude` names.
fn included(git: &Git) -> Result<Vec<RepoPath>, WorkspaceError> {
    let file = git.top_level.join(INCLUDE);
    if !fs::symlink_metadata(&file).is_ok_and(|found| found.is_file()) {
        return Ok(Vec::new());
    }
    let call = git.read("ls-files").args(["-z", "--others", "--ignored"]);
    let named = call.arg(format!("--exclude-from={INCLUDE}")).output()?;
    let named: Vec<_> = records(&named).map(RepoPath::new).collect();
    if named.is_empty() {
        return Ok(named);
    }
    // This command does not accept literal paths, and `./` keeps a name from being read as a
    // pattern.
    let plain = |path: &RepoPath| RepoPath::new(&[b"./", path.bytes()].concat());
    let asked: Vec<_> = named.iter().map(plain).collect();
    let call = git.read("check-ignore").env("GIT_LITERAL_PATHSPECS", "0");
    let ran = call.args(["-z", "--stdin"]).input(nul_separated(&asked)).run()?;
    let ignored = records(&ran.stdout).filter_map(|path| path.strip_prefix(b"./"));
    match ran.code {
        // Exit code 1 means that none is ignored.
        Some(0 | 1) => Ok(ignored.map(RepoPath::new).collect()),
        Some(_) | None => Err(failed("check-ignore", &ran.stderr)),
    }
}

/// Makes the folders above `path` real ones. A link of an agent would lead out of the tree.
fn make_folders(tree: &Path, path: &RepoPath) -> io::Result<()> {
    for parent in path.parents() {
        let folder = parent.under(tree);
        if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
            remove_any(&folder)?;
            fs::create_dir(&folder)?;
        }
    }
    Ok(())
}

/// Returns whether `to` is the copy of `from`. A copy has the time of its original, so contents are
/// not read.
fn is_copy(from: &Path, to: &Path) -> io::Result<bool> {
    let (source, copy) = (fs::symlink_metadata(from)?, fs::symlink_metadata(to)?);
    if source.is_symlink() {
        return Ok(copy.is_symlink() && fs::read_link(from)? == fs::read_link(to)?);
    }
    Ok(copy.is_file() && source.len() == copy.len() && source.modified()? == copy.modified()?)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    fs::copy(from, to)?;
    let times = FileTimes::new().set_modified(found.modified()?);
    // Times can be set on a file that was opened for reading, also if it is read-only.
    File::open(to)?.set_times(times)
}
