//! The plan of a rollback, made before anything is touched.
//!
//! Without commits of others, the branch returns to the base. With them, they stay, and the commits
//! of the attempt are reverted, newest first, in one commit on top. The revert is computed in the
//! object store alone, so nothing has changed if it conflicts.

use std::ffi::OsString;

use harness_core::{CommitId, TaskId, TreeId};

use super::{
    Base, WorkspaceError,
    git::{Git, failed},
    history::{History, Since},
    mark::{undo_arguments, undo_message},
    object::tree_id,
    path::{RepoPath, records},
    preflight::UnderWay,
    rescue::{commit_tree, resolve},
    status::Look,
    untracked,
};

/// The plan of a rollback.
#[derive(Debug)]
pub(super) enum Plan {
    /// The state is already as it should be.
    Nothing,
    Go(Target),
}

#[derive(Debug)]
pub(super) struct Target {
    /// The commit of the branch afterwards: the base, the tip with commits of others, or the undo
    /// commit on top of them.
    pub(super) commit: CommitId,
    /// The current commit of the branch; `None` if the branch is gone.
    pub(super) tip: Option<CommitId>,
    /// `true` if commits of others stay below.
    pub(super) foreign: bool,
    /// `true` if the undo commit was made for this rollback.
    pub(super) undone: bool,
}

pub(super) fn plan(
    git: &Git,
    task: &TaskId,
    base: &Base,
    look: &Look,
) -> Result<Plan, WorkspaceError> {
    let tip = claimed_tip(git, base, look)?;
    let history = match &tip {
        Some(tip) => History::read(git, task, base, tip.as_str())?,
        None => History::default(),
    };
    let foreign = !history.foreign.is_empty() || history.undone;
    let mut undone = false;
    let commit = match &tip {
        Some(tip) if foreign && (history.undone || history.attempts.is_empty()) => tip.clone(),
        Some(tip) if foreign => {
            undone = true;
            undo_commit(git, task, base, tip, &history.attempts)?
        }
        Some(_) | None => base.commit.clone(),
    };
    let stays = look.branch == base.branch && look.head.as_ref() == Some(&commit);
    if stays && clean(git, base, look)? {
        return Ok(Plan::Nothing);
    }
    Ok(Plan::Go(Target { commit, tip, foreign, undone }))
}

/// Returns the commit of the claimed branch. Commits elsewhere stay where they are.
fn claimed_tip(git: &Git, base: &Base, look: &Look) -> Result<Option<CommitId>, WorkspaceError> {
    if look.branch == base.branch {
        return Ok(look.head.clone());
    }
    match &base.branch {
        Some(branch) => resolve(git, &format!("refs/heads/{branch}")),
        None => Ok(Some(base.commit.clone())),
    }
}

/// Returns whether the work tree equals HEAD, together with the files that the claim recorded
/// beside it.
fn clean(git: &Git, base: &Base, look: &Look) -> Result<bool, WorkspaceError> {
    if !look.changed.is_empty() || UnderWay::find(git).is_some() {
        return Ok(false);
    }
    let recorded = untracked::recorded(git, base.untracked.as_ref())?;
    if look.untracked.iter().any(|path| !recorded.contains_key(path)) {
        return Ok(false);
    }
    let unchanged = untracked::unchanged(git, &recorded, recorded.keys())?;
    Ok(untracked::all_there(&recorded, &unchanged))
}

fn undo_commit(
    git: &Git,
    task: &TaskId,
    base: &Base,
    tip: &CommitId,
    attempts: &[Since],
) -> Result<CommitId, WorkspaceError> {
    let git = without_merge_drivers(git)?;
    let mut current = tip.clone();
    for (number, since) in attempts.iter().enumerate() {
        let tree = match reverted(&git, &current, since)? {
            Ok(tree) => tree,
            Err(what) => return Err(conflict(task, base, attempts, &what)),
        };
        let last = number + 1 == attempts.len();
        let parent = if last { tip } else { &current };
        current = commit_tree(
            &git,
            &tree,
            std::slice::from_ref(parent),
            &undo_message(task, base.epoch),
        )?;
    }
    Ok(current)
}

/// Returns the tree of `current` without the changes of `since`, or the reason why that is not
/// possible.
fn reverted(
    git: &Git,
    current: &CommitId,
    since: &Since,
) -> Result<Result<TreeId, String>, WorkspaceError> {
    if since.parents != 1 {
        return Ok(Err(format!("{} is a merge", since.commit.short())));
    }
    let call = git.write("merge-tree").args(["--write-tree", "-z", "--name-only", "--no-messages"]);
    let call = call.arg(format!("--merge-base={}", since.commit)).arg(current.as_str());
    let ran = call.arg(format!("{}^", since.commit)).run()?;
    let mut fields = records(&ran.stdout);
    match (ran.code, fields.next()) {
        (Some(0), Some(tree)) => Ok(Ok(tree_id(&String::from_utf8_lossy(tree))?)),
        (Some(1), Some(_)) => {
            let files: Vec<_> = fields.map(|path| RepoPath::new(path).shown()).collect();
            Ok(Err(format!("later commits changed {}", files.join(", "))))
        }
        // The exit code for an unknown option: git is older than 2.40.
        (Some(129), _) => {
            Ok(Err("this version of git cannot revert without a work tree".to_owned()))
        }
        (_, _) => Err(failed("merge-tree", &ran.stderr)),
    }
}

/// Attributes of the repository may name programs that merge; here they count as a conflict.
pub(super) fn without_merge_drivers(git: &Git) -> Result<Git, WorkspaceError> {
    use std::os::unix::ffi::OsStringExt;
    let call = git.read("config").args(["--null", "--name-only", "--get-regexp"]);
    let ran = call.arg(r"^merge\..*\.driver$").run()?;
    let mut git = git.clone();
    if ran.code == Some(0) {
        let keys = records(&ran.stdout).map(|key| OsString::from_vec(key.to_vec()));
        git.settings.extend(keys.map(|key| (key, OsString::from("false"))));
    }
    Ok(git)
}

fn conflict(task: &TaskId, base: &Base, attempts: &[Since], what: &str) -> WorkspaceError {
    let commits: Vec<_> = attempts.iter().map(|since| since.commit.short()).collect();
    let arguments = |what| undo_arguments(task, base.epoch, what);
    WorkspaceError::CannotUndo {
        what: format!("the commits of {task} cannot be undone automatically: {what}"),
        ways: [
            format!(
                "git revert --no-commit {} (resolve the conflicts), then git commit {}",
                commits.join(" "),
                arguments("undo")
            ),
            format!("git commit --allow-empty {} keeps them", arguments("keep")),
        ],
    }
}
