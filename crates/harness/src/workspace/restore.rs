//! Restores a rescue without overwriting anything.

use std::{collections::BTreeSet, fs};

use super::{
    Rescue, WorkspaceError,
    filter::refuse_silenced,
    git::Git,
    index::PrivateIndex,
    object::{Change, Contents, GITLINK, Hashing, behind_link, diff_trees, hash_files},
    own::OwnFiles,
    path::{RepoPath, nul_separated},
    rescue::BASE_TRAILER,
};

/// Returns the commit that a rescue is compared with: the base of the attempt, or the parent.
fn base_of(git: &Git, rescue: &Rescue) -> Result<String, WorkspaceError> {
    let call = git.read("log").args(["--max-count=1", "--format=%B"]);
    let message = call.arg(rescue.commit.as_str()).line()?;
    let base = message.lines().find_map(|line| line.strip_prefix(BASE_TRAILER));
    Ok(base.map_or_else(|| format!("{}^", rescue.commit), str::to_owned))
}

fn changes(git: &Git, own: &OwnFiles, rescue: &Rescue) -> Result<Vec<Change>, WorkspaceError> {
    let mut changes = diff_trees(git, &base_of(git, rescue)?, rescue.commit.as_str())?;
    let gitlink = |change: &Change| {
        [&change.before, &change.after].into_iter().flatten().any(|entry| entry.mode == GITLINK)
    };
    changes.retain(|change| !own.own(change.path.bytes()) && !gitlink(change));
    Ok(changes)
}

pub(super) fn show(git: &Git, own: &OwnFiles, rescue: &Rescue) -> Result<String, WorkspaceError> {
    let base = base_of(git, rescue)?;
    let call = git.read("diff-tree").args(["--stat", "--patch", "--no-ext-diff", "--no-textconv"]);
    let call = call.args(["--no-color", &base, rescue.commit.as_str(), "--"]);
    // A rescue leaves our files out, which would look like their deletion.
    let call = call.env("GIT_LITERAL_PATHSPECS", "0").arg(":(top)");
    let ours = own.pathspecs().into_iter().map(|path| {
        let mut excluded = std::ffi::OsString::from(":(top,exclude,literal)");
        excluded.push(path);
        excluded
    });
    Ok(String::from_utf8_lossy(&call.args(ours).output()?).into_owned())
}

pub(super) fn restore(
    git: &Git,
    own: &OwnFiles,
    rescue: &Rescue,
) -> Result<Vec<String>, WorkspaceError> {
    let changes = changes(git, own, rescue)?;
    refuse_silenced(git, None, changes.iter().map(|change| &change.path))?;
    let paths = changes.iter().map(|change| &change.path);
    let here = hash_files(git, Hashing::Compare, Contents::Cleaned, paths)?;
    let mut in_danger = Vec::new();
    let mut wanted = Vec::new();
    for change in &changes {
        let current = here.get(&change.path);
        if current == change.after.as_ref() && !occupied(git, change, current.is_some()) {
            continue;
        }
        if current != change.before.as_ref() || occupied(git, change, current.is_some()) {
            in_danger.push(change.path.shown());
        }
        wanted.push(change);
    }
    if !in_danger.is_empty() {
        return Err(WorkspaceError::WouldOverwrite { files: in_danger });
    }
    let (written, removed): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|change| change.after.is_some());
    for change in &removed {
        let file = change.path.under(&git.top_level);
        if fs::symlink_metadata(&file).is_ok() {
            fs::remove_file(file)?;
        }
    }
    let written: BTreeSet<_> = written.iter().map(|change| change.path.clone()).collect();
    if !written.is_empty() {
        let index = PrivateIndex::scratch(git)?;
        index.read_tree(git, rescue.commit.as_str())?;
        let call = git.write("checkout-index").index(index.file());
        let call = call.args(["--force", "--quiet", "-z", "--stdin"]);
        call.input(nul_separated(&written)).output()?;
    }
    Ok(written.iter().map(RepoPath::shown).collect())
}

/// Returns whether there is something other than a file at the path, or something other than a
/// folder above it.
fn occupied(git: &Git, change: &Change, is_file: bool) -> bool {
    let found = fs::symlink_metadata(change.path.under(&git.top_level));
    behind_link(git, &change.path) || (found.is_ok() && !is_file)
}
