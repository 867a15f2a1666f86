//! The untracked files from before a claim: recorded byte by byte, and restored exactly.
//!
//! They belong to the user and may be the only copy, so no content filter and no line-end
//! conversion is applied. An empty folder has no place in a git index. It is recorded as a
//! submodule entry (which names an object that need not exist), so that a rollback does not remove
//! it.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt, symlink},
    path::Path,
    sync::Arc,
};

use harness_core::{TaskId, TreeId};

use super::{
    WorkspaceError, folders,
    git::Git,
    index::PrivateIndex,
    object::{Contents, EXECUTABLE, Entry, GITLINK, Hashing, LINK, Listing, absent, hash_files},
    own::OwnFiles,
    path::{RepoPath, records},
    settings::flags::Flags,
    status::Look,
};

pub(super) fn base_ref(task: &TaskId) -> String {
    format!("refs/harness/base/{task}")
}

/// Records the untracked files, and the tracked ones that the user hides from git, because their
/// changes are in no commit either. Returns `None` if there are none.
pub(super) fn record(
    git: &Git,
    own: &OwnFiles,
    task: &TaskId,
    look: &Look,
) -> Result<Option<TreeId>, WorkspaceError> {
    let mut files = look.untracked.clone();
    files.extend(Flags::read(git)?.paths().filter(|path| !own.own(path.bytes())));
    let mut listing = hash_files(git, Hashing::Store, Contents::Raw, &files)?;
    let marker = look.commit()?;
    for folder in empty_folders(git, own)?.into_iter().chain(look.nested.iter().cloned()) {
        let entry = Entry { mode: GITLINK.to_owned(), object: marker.to_string() };
        listing.insert(folder, entry);
    }
    if listing.is_empty() {
        if !is_absent(git, &base_ref(task)) {
            forget(git, task)?;
        }
        return Ok(None);
    }
    let index = PrivateIndex::scratch(git)?;
    index.set(git, &listing)?;
    let tree = index.write_tree(git)?;
    let call = git.write("update-ref").args(["-m", "harness: before the claim"]);
    call.args([base_ref(task).as_str(), tree.as_str()]).output()?;
    git.memory.remember_listing(&tree, Arc::new(listing));
    Ok(Some(tree))
}

/// Returns whether the ref certainly does not exist: neither as a file of its own, nor packed, nor
/// in another kind of store.
fn is_absent(git: &Git, reference: &str) -> bool {
    let common = git.common_dir();
    let missing = |path: &Path| fs::symlink_metadata(path).is_err_and(|error| absent(&error));
    let packed = match fs::read(common.join("packed-refs")) {
        Ok(bytes) => bytes.windows(reference.len()).any(|part| part == reference.as_bytes()),
        Err(error) => !absent(&error),
    };
    !packed && missing(&common.join(reference)) && missing(&common.join("reftable"))
}

pub(super) fn forget(git: &Git, task: &TaskId) -> Result<(), WorkspaceError> {
    git.write("update-ref").args(["-d", &base_ref(task)]).output().map(drop)
}

/// Returns the recorded files.
pub(super) fn recorded(git: &Git, tree: Option<&TreeId>) -> Result<Arc<Listing>, WorkspaceError> {
    tree.map_or_else(|| Ok(Arc::default()), |tree| git.listing(tree))
}

/// Returns those of `paths` that are equal to the record byte by byte. An index cannot answer this,
/// because it knows files as they come out of the filters.
pub(super) fn unchanged<'a>(
    git: &Git,
    recorded: &Listing,
    paths: impl IntoIterator<Item = &'a RepoPath>,
) -> Result<BTreeSet<RepoPath>, WorkspaceError> {
    let known = paths.into_iter().filter(|path| recorded.contains_key(*path));
    let here = hash_files(git, Hashing::Compare, Contents::Raw, known)?;
    let same = here.into_iter().filter(|(path, entry)| recorded.get(path) == Some(entry));
    Ok(same.map(|(path, _)| path).collect())
}

/// Returns whether every recorded file is among the `unchanged` ones. (A nested repository is not a
/// file.)
pub(super) fn all_there(recorded: &Listing, unchanged: &BTreeSet<RepoPath>) -> bool {
    recorded.iter().all(|(path, entry)| entry.mode == GITLINK || unchanged.contains(path))
}

/// Restores every recorded file. Returns those that had changed or vanished.
pub(super) fn put_back(git: &Git, recorded: &Listing) -> Result<Vec<RepoPath>, WorkspaceError> {
    let here = hash_files(git, Hashing::Compare, Contents::Raw, recorded.keys())?;
    let mut put_back = Vec::new();
    for (path, entry) in recorded {
        let file = path.under(&git.top_level);
        if entry.mode == GITLINK {
            make_way(&git.top_level, path)?;
            if !fs::symlink_metadata(&file).is_ok_and(|found| found.is_dir()) {
                remove(&file)?;
                fs::create_dir(&file)?;
                put_back.push(path.clone());
            }
        } else if here.get(path) != Some(entry) {
            make_way(&git.top_level, path)?;
            remove(&file)?;
            write(git, &file, entry)?;
            put_back.push(path.clone());
        }
    }
    Ok(put_back)
}

/// Makes the folders above `path` real ones. The rescue has saved anything that is in the way.
fn make_way(top_level: &Path, path: &RepoPath) -> Result<(), WorkspaceError> {
    for parent in path.parents() {
        let folder = parent.under(top_level);
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                fs::remove_file(&folder)?;
                fs::create_dir(&folder)?;
            }
            Err(error) if absent(&error) => fs::create_dir(&folder)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::symlink_metadata(file) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(file),
        Ok(_) => fs::remove_file(file),
        Err(error) if absent(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn write(git: &Git, file: &Path, entry: &Entry) -> Result<(), WorkspaceError> {
    let call = git.read("cat-file").args(["blob", &entry.object]);
    if entry.mode == LINK {
        use std::os::unix::ffi::OsStrExt;
        let target = call.output()?;
        return Ok(symlink(std::ffi::OsStr::from_bytes(&target), file)?);
    }
    let mode = if entry.mode == EXECUTABLE { 0o777 } else { 0o666 };
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    call.run_into(opened.try_clone()?)?;
    Ok(opened.sync_all()?)
}

/// Returns untracked folders, not ignored, that are empty.
fn empty_folders(git: &Git, own: &OwnFiles) -> Result<Vec<RepoPath>, WorkspaceError> {
    let mut empty = Vec::new();
    for folder in folders::with_empty_ones(git, own)? {
        walk(git, own, &folder, &mut |folder, inside| {
            if inside == Inside::Nothing {
                empty.push(folder.clone());
            }
            Ok(Inside::Something)
        })?;
    }
    Ok(empty)
}

/// Removes untracked folders that contain nothing (or only such folders), except recorded ones.
pub(super) fn prune_empty_folders(
    git: &Git,
    own: &OwnFiles,
    recorded: &Listing,
) -> Result<(), WorkspaceError> {
    for folder in untracked_folders(git, own)? {
        walk(git, own, &folder, &mut |folder, inside| {
            if inside == Inside::Something || recorded.contains_key(folder) {
                return Ok(Inside::Something);
            }
            fs::remove_dir(folder.under(&git.top_level))?;
            Ok(Inside::Nothing)
        })?;
    }
    Ok(())
}

/// Returns the outermost folders without a tracked file.
pub(super) fn untracked_folders(
    git: &Git,
    own: &OwnFiles,
) -> Result<Vec<RepoPath>, WorkspaceError> {
    let call = git.read("ls-files").args(["--others", "--directory", "--exclude-standard", "-z"]);
    let output = call.output()?;
    let folders = records(&output).filter_map(|record| record.strip_suffix(b"/"));
    Ok(folders.filter(|folder| !own.own(folder)).map(RepoPath::new).collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Something,
}

/// Visits folders from the innermost outwards. Another repository is not entered.
fn walk(
    git: &Git,
    own: &OwnFiles,
    folder: &RepoPath,
    visit: &mut impl FnMut(&RepoPath, Inside) -> io::Result<Inside>,
) -> io::Result<Inside> {
    if own.own(folder.bytes()) || own.own(&[folder.bytes(), b"/.harness"].concat()) {
        return Ok(Inside::Something);
    }
    let mut inside = Inside::Nothing;
    for entry in fs::read_dir(folder.under(&git.top_level))? {
        let entry = entry?;
        let is_folder = entry.file_type()?.is_dir();
        if entry.file_name() == ".git" {
            return Ok(Inside::Something);
        }
        if !is_folder
            || walk(git, own, &folder.join(&entry.file_name()), visit)? == Inside::Something
        {
            inside = Inside::Something;
        }
    }
    visit(folder, inside)
}

/// Returns files that git does not look at (such as ignored ones) but that putting back `path`
/// would remove.
pub(super) fn in_the_way(git: &Git, path: &RepoPath) -> Result<Vec<RepoPath>, WorkspaceError> {
    for parent in path.parents() {
        match fs::symlink_metadata(parent.under(&git.top_level)) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Ok(vec![parent]),
            Err(error) if absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
    }
    let mut files = Vec::new();
    all_files(git, path, &mut files)?;
    Ok(files)
}

fn all_files(git: &Git, path: &RepoPath, files: &mut Vec<RepoPath>) -> Result<(), WorkspaceError> {
    let found = match fs::symlink_metadata(path.under(&git.top_level)) {
        Ok(found) => found,
        Err(error) if absent(&error) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !found.is_dir() {
        files.push(path.clone());
        return Ok(());
    }
    for entry in fs::read_dir(path.under(&git.top_level))? {
        let name = entry?.file_name();
        if name == ".git" {
            return Err(WorkspaceError::Unsafe {
                what: format!("{} was a file and is now a git repository", path.shown()),
                hint: "move it out of the work tree".to_owned(),
            });
        }
        all_files(git, &path.join(&name), files)?;
    }
    Ok(())
}
