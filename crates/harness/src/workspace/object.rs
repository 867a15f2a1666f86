//! Trees, entries and blobs: parsing git's output about them, and writing files as blobs.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
};

use harness_core::{CommitId, TreeId};

use super::{
    WorkspaceError,
    git::{Git, failed},
    index::PrivateIndex,
    path::{RepoPath, records},
};

/// The entry of a tree or an index for one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: String,
    pub(super) object: String,
}

pub(super) const REGULAR: &str = "100644";
pub(super) const EXECUTABLE: &str = "100755";
pub(super) const LINK: &str = "120000";
/// A submodule; in a tree of untracked files, a folder (see `untracked.rs`).
pub(super) const GITLINK: &str = "160000";

/// The difference of one path between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: RepoPath,
    pub(super) before: Option<Entry>,
    pub(super) after: Option<Entry>,
}

pub(super) type Listing = BTreeMap<RepoPath, Entry>;

pub(super) fn commit_id(text: &str) -> Result<CommitId, WorkspaceError> {
    CommitId::parse(text).map_err(|bad| failed("output", bad.to_string().as_bytes()))
}

pub(super) fn tree_id(text: &str) -> Result<TreeId, WorkspaceError> {
    TreeId::parse(text).map_err(|bad| failed("output", bad.to_string().as_bytes()))
}

/// Returns every file of a tree, or only those of the named paths.
pub(super) fn list_tree(
    git: &Git,
    treeish: &str,
    only: &[std::ffi::OsString],
) -> Result<Listing, WorkspaceError> {
    let call = git.read("ls-tree").args(["-r", "-z", "--full-tree", "--", treeish]);
    let output = call.args(only).output()?;
    let mut listing = Listing::new();
    for record in records(&output) {
        let parsed = (|| {
            let tab = record.iter().position(|byte| *byte == b'\t')?;
            let mut words = std::str::from_utf8(&record[..tab]).ok()?.split(' ');
            let (mode, _kind, object) = (words.next()?, words.next()?, words.next()?);
            let entry = Entry { mode: mode.to_owned(), object: object.trim().to_owned() };
            Some((RepoPath::new(&record[tab + 1..]), entry))
        })();
        let (path, entry) = parsed.ok_or_else(|| failed("ls-tree", b"unexpected output"))?;
        listing.insert(path, entry);
    }
    Ok(listing)
}

/// Returns the paths in which two trees (or commits) differ.
pub(super) fn diff_trees(
    git: &Git,
    before: &str,
    after: &str,
) -> Result<Vec<Change>, WorkspaceError> {
    let call = git.read("diff-tree").args(["-r", "-z", "--raw", "--no-renames", "--no-abbrev"]);
    let call = call.args(["--no-ext-diff", "--no-textconv", "--end-of-options", before, after]);
    let output = call.output()?;
    let mut fields = records(&output);
    let mut changes = Vec::new();
    while let Some(header) = fields.next() {
        let parsed = (|| {
            let header = std::str::from_utf8(header).ok()?.strip_prefix(':')?;
            let words: Vec<_> = header.split(' ').collect();
            let [old_mode, new_mode, old, new, _letter] = words[..] else { return None };
            Some(Change {
                path: RepoPath::new(fields.next()?),
                before: entry(old_mode, old),
                after: entry(new_mode, new),
            })
        })();
        changes.push(parsed.ok_or_else(|| failed("diff-tree", b"unexpected output"))?);
    }
    Ok(changes)
}

fn entry(mode: &str, object: &str) -> Option<Entry> {
    (mode != "000000").then(|| Entry { mode: mode.to_owned(), object: object.to_owned() })
}

/// Whether [`hash_files`] stores the blobs that it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hashing {
    Store,
    Compare,
}

/// Whether a file becomes a blob byte by byte or in the way of `git add`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    Raw,
    Cleaned,
}

/// Returns the entries of those of `paths` that are files or links. One process handles all.
pub(super) fn hash_files<'a>(
    git: &Git,
    hashing: Hashing,
    contents: Contents,
    paths: impl IntoIterator<Item = &'a RepoPath>,
) -> Result<Listing, WorkspaceError> {
    hash_with(git, hashing, contents, None, paths)
}

/// Does the same with one more variable.
pub(super) fn hash_with<'a>(
    git: &Git,
    hashing: Hashing,
    contents: Contents,
    variable: Option<(&str, &str)>,
    paths: impl IntoIterator<Item = &'a RepoPath>,
) -> Result<Listing, WorkspaceError> {
    // hash-object follows links, so the text of a link goes through a file of our own.
    let links = PrivateIndex::scratch(git)?;
    let (mut plain, mut linked, mut modes) = (Vec::new(), Vec::new(), Vec::new());
    let mut link_paths = Vec::new();
    for path in paths {
        let file = path.under(&git.top_level);
        let metadata = match fs::symlink_metadata(&file) {
            Ok(metadata) => metadata,
            Err(error) if absent(&error) => continue,
            Err(error) => return Err(error.into()),
        };
        if behind_link(git, path) {
            continue;
        }
        if metadata.is_symlink() {
            let text = links.path().join(format!("link-{}", link_paths.len()));
            fs::write(&text, fs::read_link(&file)?.as_os_str().as_bytes())?;
            linked.extend(RepoPath::new(text.as_os_str().as_bytes()).quoted());
            linked.push(b'\n');
            link_paths.push(path.clone());
        } else if metadata.is_file() {
            let executable = metadata.permissions().mode() & 0o100 != 0;
            plain.extend(path.quoted());
            plain.push(b'\n');
            modes.push((path.clone(), if executable { EXECUTABLE } else { REGULAR }));
        }
    }
    modes.extend(link_paths.into_iter().map(|path| (path, LINK)));
    let mut objects = hash(git, hashing, contents, variable, plain)?;
    objects.extend(hash(git, hashing, Contents::Raw, None, linked)?);
    if objects.len() != modes.len() {
        return Err(failed("hash-object", b"unexpected output"));
    }
    let entries = modes.into_iter().zip(objects);
    Ok(entries
        .map(|((path, mode), object)| (path, Entry { mode: mode.to_owned(), object }))
        .collect())
}

fn hash(
    git: &Git,
    hashing: Hashing,
    contents: Contents,
    variable: Option<(&str, &str)>,
    quoted: Vec<u8>,
) -> Result<Vec<String>, WorkspaceError> {
    if quoted.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = git.write("hash-object").arg("--stdin-paths");
    if hashing == Hashing::Store {
        call = call.arg("-w");
    }
    if contents == Contents::Raw {
        call = call.arg("--no-filters");
    }
    if let Some((name, value)) = variable {
        call = call.env(name, value);
    }
    let output = call.input(quoted).output()?;
    Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
}

/// Returns whether the path leads through something that is not a folder. The file does not exist
/// here then, whatever the link points at.
pub(super) fn behind_link(git: &Git, path: &RepoPath) -> bool {
    path.parents().any(|parent| {
        fs::symlink_metadata(parent.under(&git.top_level)).is_ok_and(|found| !found.is_dir())
    })
}

/// Returns whether the file does not exist, including the case that something above it is not a
/// folder.
pub(super) fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
