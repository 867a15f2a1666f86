//! Work that no commit of this repository can hold: in a nested repository, in a submodule, or in
//! an untracked file from before the claim. If nothing else was done, ignored files count too.

use std::{fs, os::unix::fs::MetadataExt};

use super::{
    Base, WorkspaceError,
    discover::repository,
    git::Git,
    object::{GITLINK, Listing},
    own::OwnFiles,
    path::{RepoPath, records},
    status::Look,
    untracked,
};

/// The limit of files of a folder that are checked.
const MOST: usize = 20_000;

pub(super) fn hidden(
    git: &Git,
    own: &OwnFiles,
    base: &Base,
    look: &Look,
    recorded: &Listing,
) -> Result<Vec<String>, WorkspaceError> {
    let since = Since(base.claimed_at.map(|at| at.seconds()));
    let mut found = earlier(git, since, recorded)?;
    for nested in &look.nested {
        let folder = nested.under(&git.top_level);
        if !recorded.contains_key(nested) || since.touched_below(&folder, &mut MOST.clone()) {
            found.push(format!("{}/", nested.shown()));
        }
    }
    found.extend(submodules(git, since)?);
    let unchanged = |path: &RepoPath| recorded.contains_key(path);
    if look.changed.is_empty()
        && look.untracked.iter().all(unchanged)
        && look.head.as_ref() == Some(&base.commit)
    {
        found.extend(ignored(git, own, since)?);
    }
    Ok(found)
}

/// The time of the claim. Without it, all files count as changed.
#[derive(Clone, Copy)]
struct Since(Option<i64>);

impl Since {
    fn touched(self, found: &fs::Metadata) -> bool {
        self.0.is_none_or(|claimed| found.ctime() >= claimed)
    }

    /// Returns whether a file in the folder was changed. Git's internal files do not count, except
    /// HEAD.
    fn touched_below(self, folder: &std::path::Path, left: &mut usize) -> bool {
        let Ok(entries) = fs::read_dir(folder) else { return false };
        for entry in entries.flatten() {
            *left = left.saturating_sub(1);
            let path = entry.path();
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            let is_git = entry.file_name() == ".git";
            let touched = match found.is_dir() {
                true if is_git => {
                    fs::symlink_metadata(path.join("index")).is_ok_and(|index| self.touched(&index))
                }
                true => *left > 0 && self.touched_below(&path, left),
                false => !is_git && self.touched(&found),
            };
            if touched {
                return true;
            }
        }
        false
    }
}

/// Returns untracked files from before the claim that have changed.
fn earlier(git: &Git, since: Since, recorded: &Listing) -> Result<Vec<String>, WorkspaceError> {
    let files = recorded.iter().filter(|(_, entry)| entry.mode != GITLINK).map(|(path, _)| path);
    let suspects: Vec<_> = files
        .filter(|path| {
            let found = fs::symlink_metadata(path.under(&git.top_level));
            found.map_or(true, |found| since.touched(&found))
        })
        .collect();
    if suspects.is_empty() {
        return Ok(Vec::new());
    }
    let unchanged = untracked::unchanged(git, recorded, suspects.iter().copied())?;
    let changed = suspects.into_iter().filter(|path| !unchanged.contains(*path));
    Ok(changed.map(RepoPath::shown).collect())
}

/// Returns submodules with changes of their own. Each is asked separately, and nothing of its
/// configuration is executed.
fn submodules(git: &Git, since: Since) -> Result<Vec<String>, WorkspaceError> {
    if fs::symlink_metadata(git.top_level.join(".gitmodules")).is_err() {
        return Ok(Vec::new());
    }
    let output = git.read("ls-files").args(["-z", "--stage"]).output()?;
    let links = records(&output).filter(|record| record.starts_with(GITLINK.as_bytes()));
    let links = links.filter_map(|record| record.splitn(2, |byte| *byte == b'\t').nth(1));
    let mut dirty = Vec::new();
    for link in links.map(RepoPath::new) {
        let folder = link.under(&git.top_level);
        if !folder.join(".git").exists() {
            continue;
        }
        let Ok(inside) = repository(&folder) else { continue };
        let call = inside.read("status").args(["--porcelain", "-z", "--no-renames"]);
        let call = call.args(["--untracked-files=all", "--ignore-submodules=all"]);
        let Ok(output) = call.output() else { continue };
        let touched = |record: &[u8]| {
            let path = RepoPath::new(record.get(3..).unwrap_or_default());
            let found = fs::symlink_metadata(path.under(&folder));
            found.map_or(true, |found| since.touched(&found))
        };
        if records(&output).any(touched) {
            dirty.push(format!("{}/", link.shown()));
        }
    }
    Ok(dirty)
}

/// Returns ignored files that were changed since the claim. A folder that is ignored as a whole is
/// returned by its name.
fn ignored(git: &Git, own: &OwnFiles, since: Since) -> Result<Vec<String>, WorkspaceError> {
    let call = git.read("ls-files").args(["--others", "--ignored", "--exclude-standard"]);
    let output = call.args(["--directory", "-z"]).output()?;
    let mut left = MOST;
    let mut found = Vec::new();
    for record in records(&output).take(MOST) {
        let (path, is_folder) = match record.strip_suffix(b"/") {
            Some(folder) => (RepoPath::new(folder), true),
            None => (RepoPath::new(record), false),
        };
        let place = path.under(&git.top_level);
        let touched = match is_folder {
            true => since.touched_below(&place, &mut left),
            false => fs::symlink_metadata(&place).is_ok_and(|found| since.touched(&found)),
        };
        if touched && !own.own(path.bytes()) {
            found.push(if is_folder { format!("{}/", path.shown()) } else { path.shown() });
        }
    }
    Ok(found)
}
