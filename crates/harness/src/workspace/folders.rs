//! Untracked folders. Git lists only files, so it does not report an empty folder.
//!
//! The folders of tracked files are read once, without git. Git is asked only which of the others
//! are ignored, and only if they contain an empty folder or too many entries to look through.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use super::{
    WorkspaceError,
    git::{Git, failed},
    index_file::IndexFile,
    own::OwnFiles,
    path::{RepoPath, nul_separated, records},
    untracked::untracked_folders,
};

/// The number of entries of a folder that are looked through before git is asked whether it is
/// ignored.
const MOST: usize = 200;

/// Returns the outermost folders without a tracked file, not ignored, that may contain an empty
/// folder.
pub(super) fn with_empty_ones(git: &Git, own: &OwnFiles) -> Result<Vec<RepoPath>, WorkspaceError> {
    let file = IndexFile::read(git)?;
    let (mut folders, mut submodules) = (BTreeSet::new(), BTreeSet::new());
    let mut last: &[u8] = b"";
    let read = file.entries(|entry| {
        if entry.is_submodule() {
            submodules.insert(entry.path);
        }
        let folder = entry.path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at);
        if entry.path[..folder] == *last {
            return;
        }
        last = &entry.path[..folder];
        let slashes = (0..=folder).filter(|at| *at == folder || entry.path[*at] == b'/');
        folders.extend(slashes.map(|at| &entry.path[..at]));
    });
    if read.is_none() {
        return untracked_folders(git, own);
    }
    folders.remove(b"".as_slice());
    let mut others = Vec::new();
    let tracked = Tracked { folders: &folders, submodules: &submodules };
    tracked.collect(git, own, &git.top_level, b"", &mut others)?;
    others.retain(|folder| !holds_no_empty_one(&folder.under(&git.top_level)));
    without_ignored(git, others)
}

struct Tracked<'a> {
    folders: &'a BTreeSet<&'a [u8]>,
    submodules: &'a BTreeSet<&'a [u8]>,
}

impl Tracked<'_> {
    fn collect(
        &self,
        git: &Git,
        own: &OwnFiles,
        place: &Path,
        below: &[u8],
        others: &mut Vec<RepoPath>,
    ) -> io::Result<()> {
        for entry in fs::read_dir(place)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() || (below.is_empty() && entry.file_name() == ".git") {
                continue;
            }
            let mut path = below.to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(entry.file_name().into_vec());
            if own.own(&path) || self.submodules.contains(path.as_slice()) {
                continue;
            }
            if self.folders.contains(path.as_slice()) {
                let inside = git.top_level.join(OsStr::from_bytes(&path));
                self.collect(git, own, &inside, &path, others)?;
            } else {
                others.push(RepoPath::new(&path));
            }
        }
        Ok(())
    }
}

/// Returns whether the folder certainly contains no empty one. A large folder may contain one.
fn holds_no_empty_one(folder: &Path) -> bool {
    fn look(folder: &Path, left: &mut usize) -> io::Result<bool> {
        let mut entries = 0;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            entries += 1;
            if *left == 0 {
                return Ok(false);
            }
            *left -= 1;
            if entry.file_type()?.is_dir() && !look(&entry.path(), left)? {
                return Ok(false);
            }
        }
        Ok(entries > 0)
    }
    look(folder, &mut MOST.clone()).unwrap_or(false)
}

fn without_ignored(git: &Git, mut folders: Vec<RepoPath>) -> Result<Vec<RepoPath>, WorkspaceError> {
    if folders.is_empty() {
        return Ok(folders);
    }
    // This command does not accept literal paths, and `./` keeps a name from being read as a
    // pattern.
    let plain = |folder: &RepoPath| RepoPath::new(&[b"./", folder.bytes()].concat());
    let asked: Vec<_> = folders.iter().map(plain).collect();
    let call = git.read("check-ignore").env("GIT_LITERAL_PATHSPECS", "0");
    let ran = call.args(["-z", "--stdin"]).input(nul_separated(&asked)).run()?;
    // Exit code 1 means that none is ignored.
    if !matches!(ran.code, Some(0 | 1)) {
        return Err(failed("check-ignore", &ran.stderr));
    }
    let ignored = records(&ran.stdout).filter_map(|path| path.strip_prefix(b"./"));
    let ignored: BTreeSet<_> = ignored.map(RepoPath::new).collect();
    folders.retain(|folder| !ignored.contains(folder));
    Ok(folders)
}
