//! The submodules of a worker's tree. Each is a linked work tree of the submodule's repository in the
//! main git directory, so nothing is fetched, and commits that an agent makes in one are kept there.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use harness_core::CommitId;

use super::{
    entry::{self, TreeEntry},
    provision::Provisions,
    save::Saving,
    tree::{born, replace},
};
use crate::workspace::{
    GitWorkspace, WorkspaceError, discover,
    git::Git,
    object::{GITLINK, commit_id, diff_trees, list_tree},
    path::{RepoPath, records},
    rescue::resolve,
};

/// A submodule that the main repository has.
struct Submodule {
    /// Its repository.
    modules: PathBuf,
    path: RepoPath,
}

/// Checks out the submodules of `commit`, which `git` has checked out. One that the main repository
/// does not have stays an empty folder, as it is there.
pub(super) fn check_out(
    workspace: &GitWorkspace,
    git: &Git,
    commit: &CommitId,
) -> Result<(), WorkspaceError> {
    let submodules = find(git)?;
    if submodules.is_empty() {
        return Ok(());
    }
    let paths: Vec<_> = submodules.iter().map(|found| found.path.to_os_string()).collect();
    let links = list_tree(git, commit.as_str(), &paths)?;
    for Submodule { modules, path } in submodules {
        let Some(link) = links.get(&path).filter(|entry| entry.mode == GITLINK) else { continue };
        let link = commit_id(&link.object)?;
        let place = path.under(&git.top_level);
        let repository = Git { git_dir: modules, memory: Arc::default(), ..git.clone() };
        refuse_unknown(&repository, &path, &link)?;
        let known = TreeEntry::find(&repository, &place)?;
        let entry = match known.filter(|_| place.join(".git").exists()) {
            Some(entry) => entry,
            None => add(&repository, &place, &link)?,
        };
        let inner = workspace.linked(place, entry.git_dir);
        let git = inner.git()?;
        let provisions = Provisions::none();
        let (workspace, next) = (&inner, Some(&link));
        let saving = Saving { workspace, git: &git, provisions: &provisions, next, held: None };
        replace(&saving, &link)?;
        check_out(&inner, &git, &link)?;
    }
    Ok(())
}

/// Saves what the submodules of a tree hold, before the tree is removed. Returns their entries.
pub(super) fn save(workspace: &GitWorkspace, git: &Git) -> Result<Vec<TreeEntry>, WorkspaceError> {
    let mut entries = Vec::new();
    for Submodule { modules, path } in find(git)? {
        let place = path.under(&git.top_level);
        let repository = Git { git_dir: modules, memory: Arc::default(), ..git.clone() };
        let Some(entry) = TreeEntry::find(&repository, &place)? else { continue };
        if place.join(".git").exists() {
            let inner = workspace.linked(place, entry.git_dir.clone());
            let git = inner.git()?;
            let provisions = Provisions::none();
            let workspace = &inner;
            let saving =
                Saving { workspace, git: &git, provisions: &provisions, next: None, held: None };
            saving.save(&born(&saving)?)?;
            entries.extend(save(&inner, &git)?);
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Returns the submodules that `.gitmodules` names and the main repository has.
fn find(git: &Git) -> Result<Vec<Submodule>, WorkspaceError> {
    let file = git.top_level.join(".gitmodules");
    if !fs::symlink_metadata(&file).is_ok_and(|found| found.is_file()) {
        return Ok(Vec::new());
    }
    let call = git.read("config").args(["--file", ".gitmodules", "--null", "--get-regexp"]);
    let ran = call.arg(r"^submodule\..*\.path$").run()?;
    let common = git.common_dir();
    let found = records(&ran.stdout).filter_map(|setting| {
        let end = setting.iter().position(|byte| *byte == b'\n')?;
        let (key, path) = (&setting[..end], &setting[end + 1..]);
        let name = key.strip_prefix(b"submodule.")?.strip_suffix(b".path")?;
        let (name, place) = (Path::new(OsStr::from_bytes(name)), OsStr::from_bytes(path));
        let modules = common.join("modules").join(name);
        let usable = is_plain(name) && is_plain(Path::new(place)) && modules.join("HEAD").is_file();
        usable.then(|| Submodule { modules, path: RepoPath::new(path) })
    });
    Ok(found.collect())
}

fn add(repository: &Git, place: &Path, commit: &CommitId) -> Result<TreeEntry, WorkspaceError> {
    if let Some(stale) = TreeEntry::find(repository, place)? {
        stale.remove()?;
    }
    entry::add(repository, place, commit, &[])?;
    let missing = || WorkspaceError::NotARepository { path: place.to_owned() };
    TreeEntry::find(repository, place)?.ok_or_else(missing)
}

fn refuse_unknown(
    repository: &Git,
    path: &RepoPath,
    commit: &CommitId,
) -> Result<(), WorkspaceError> {
    let there = repository.read("cat-file").args(["-e", &format!("{commit}^{{commit}}")]).run()?;
    if there.code == Some(0) {
        return Ok(());
    }
    Err(WorkspaceError::Unsafe {
        what: format!("the submodule {} has no commit {} here", path.shown(), commit.short()),
        hint: format!("git submodule update --init -- {}", path.shown()),
    })
}

/// Returns whether the path stays below its start.
fn is_plain(path: &Path) -> bool {
    !path.as_os_str().is_empty()
        && path.components().all(|part| matches!(part, Component::Normal(name) if name != ".git"))
}

/// Moves the submodules of the main tree along with a landing, as far as that is possible without a
/// loss: a submodule that was at the commit before, and that has no changes in the way. Others stay,
/// and git shows them as changed.
pub(super) fn follow(git: &Git, from: &CommitId, to: &CommitId) {
    let moved = || -> Result<(), WorkspaceError> {
        if find(git)?.is_empty() {
            return Ok(());
        }
        for change in diff_trees(git, from.as_str(), to.as_str())? {
            let (Some(before), Some(after)) = (change.before, change.after) else { continue };
            let folder = change.path.under(&git.top_level);
            if before.mode != GITLINK || after.mode != GITLINK || !folder.join(".git").exists() {
                continue;
            }
            let inner = discover::repository(&folder)?;
            let head = resolve(&inner, "HEAD")?;
            if head.is_some_and(|head| head.as_str() == before.object) {
                let call = inner.write("checkout").args(["--quiet", "--detach", &after.object]);
                call.output()?;
            }
        }
        Ok(())
    };
    if let Err(why) = moved() {
        tracing::warn!(%why, "a submodule of the main tree did not move along");
    }
}
