//! Commits what the agent left, on the claimed branch.
//!
//! The tree was built in a private index (see `candidate.rs`), and the branch moves by one
//! compare-and-swap. Only then the user's index is updated. If a call is cut short anywhere, a
//! second one finds the same tree and makes no second commit.

use std::fs;

use harness_core::{CommitId, TreeId};

use super::{
    Base, WorkspaceError,
    git::Git,
    index::PrivateIndex,
    object::commit_id,
    policy::{CommitPolicy, Made},
    preflight::{UnderWay, refuse_locked_index},
    rescue::resolve,
    status::Look,
};

/// Commits `tree`, which was computed from `look`, in `index` if that is known: then the user's need
/// not be computed once more. With hooks the commit may hold more than `tree`.
pub(super) fn commit(
    git: &Git,
    base: &Base,
    look: &Look,
    tree: &TreeId,
    index: Option<&PrivateIndex>,
    message: &str,
    policy: &CommitPolicy,
) -> Result<CommitId, WorkspaceError> {
    let merged = refuse_before_commit(git, base)?;
    let head = look.commit()?;
    claim_branch_for(git, base, look, &head)?;
    let mut made = false;
    let commit = if git.tree_of(&head)? == *tree && merged.is_empty() {
        if look.changed.is_empty() && look.ours.is_empty() {
            // The index equals HEAD.
            return Ok(head);
        }
        head
    } else {
        let parents: Vec<_> = [head.clone()].into_iter().chain(merged).collect();
        let mover = || git.write("update-ref").args(["-m", "commit by harness", "--stdin"]).begin();
        // The process that moves the branch starts while the commit is made, and waits for its
        // order. Hooks and signers may take any time, and so it waits for none of them.
        let early = (*policy == CommitPolicy::default()).then(mover).transpose()?;
        let Made { commit, tree } = policy.make(git, tree, index, &parents, message)?;
        let mover = early.map_or_else(mover, Ok)?;
        if let Err(why) = mover.done(format!("update HEAD {commit} {head}\n")) {
            let now = resolve(git, "HEAD")?;
            let elsewhere = now.is_some_and(|now| now != head);
            return Err(if elsewhere { WorkspaceError::HeadMoved { from: head } } else { why });
        }
        git.memory.remember_tree(&commit, &tree);
        made = true;
        commit
    };
    // A reset also forgets what is under way.
    if UnderWay::find(git).is_some() || !index.is_some_and(|index| index.install(git)) {
        git.write("reset").args(["--quiet", "--mixed"]).output()?;
    }
    if made {
        policy.after(git);
    }
    Ok(commit)
}

/// Returns the other parents of a merge that was not concluded.
pub(super) fn refuse_before_commit(
    git: &Git,
    base: &Base,
) -> Result<Vec<CommitId>, WorkspaceError> {
    if base.worktree != git.top_level {
        return Err(WorkspaceError::WrongWorktree {
            claimed: base.worktree.clone(),
            here: git.top_level.clone(),
        });
    }
    refuse_locked_index(git)?;
    match UnderWay::find(git) {
        None | Some(UnderWay::Bisect) => Ok(Vec::new()),
        Some(UnderWay::Merge) => merge_heads(git),
        Some(UnderWay::CherryPick | UnderWay::Revert) => Ok(Vec::new()),
        Some(other @ (UnderWay::Sequence | UnderWay::Rebase | UnderWay::Am)) => {
            Err(other.refusal())
        }
    }
}

/// Moves the claimed branch to HEAD and HEAD to the claimed branch, if the agent left it.
fn claim_branch_for(
    git: &Git,
    base: &Base,
    look: &Look,
    head: &CommitId,
) -> Result<(), WorkspaceError> {
    let found = || look.branch.clone().unwrap_or_else(|| "a detached commit".to_owned());
    let not_descendant =
        || WorkspaceError::NotDescendant { found: found(), base: base.commit.clone() };
    if !descends(git, &base.commit, head)? {
        return Err(not_descendant());
    }
    if look.branch == base.branch {
        return Ok(());
    }
    let Some(branch) = &base.branch else {
        let call = git.write("update-ref").args(["--no-deref", "-m", "harness: back", "HEAD"]);
        return call.arg(head.as_str()).output().map(drop);
    };
    let claimed = format!("refs/heads/{branch}");
    let tip = resolve(git, &claimed)?;
    if let Some(tip) = &tip
        && !descends(git, tip, head)?
    {
        return Err(WorkspaceError::Unsafe {
            what: format!("{branch} has commits that {} does not have", found()),
            hint: format!("merge {branch} into it, or commit on {branch}"),
        });
    }
    let old = tip.map_or_else(|| "0".repeat(head.as_str().len()), |tip| tip.to_string());
    let call = git.write("update-ref").args(["-m", "harness: forward", &claimed]);
    call.args([head.as_str(), &old]).output()?;
    let call = git.write("symbolic-ref").args(["-m", "harness: back", "HEAD"]);
    call.arg(claimed).output().map(drop)
}

fn descends(git: &Git, ancestor: &CommitId, commit: &CommitId) -> Result<bool, WorkspaceError> {
    if ancestor == commit {
        return Ok(true);
    }
    let call = git.read("merge-base").arg("--is-ancestor");
    call.args([ancestor.as_str(), commit.as_str()]).answer()
}

/// Returns the other parents of a merge that the agent did not conclude.
fn merge_heads(git: &Git) -> Result<Vec<CommitId>, WorkspaceError> {
    let text = fs::read_to_string(git.git_dir.join("MERGE_HEAD"))?;
    text.lines().map(commit_id).collect()
}
