//! Restores the work tree to the state at the claim. The rescue comes first. Every step after it
//! can be repeated, so a second call finishes a rollback that was cut short.
//!
//! The order matters: the untracked files from before the claim are restored before anything is
//! cleaned, because one of them may be a `.gitignore` that keeps other files of the user from being
//! cleaned.

use std::{collections::BTreeSet, fs};

use harness_core::{CommitId, TaskId};

use super::{
    Base, RolledBack, Undone, WorkspaceError,
    filter::refuse_silenced,
    git::Git,
    index::PrivateIndex,
    object::{GITLINK, Listing, diff_trees, list_tree},
    own::OwnFiles,
    path::{RepoPath, nul_separated, records},
    preflight::{UnderWay, refuse_locked_index},
    rescue::Rescuing,
    settings::flags::Flags,
    status::Look,
    undo::{self, Plan, Target},
    untracked,
};

pub(super) fn rollback(
    git: &Git,
    own: &OwnFiles,
    task: &TaskId,
    attempt: u32,
    base: &Base,
) -> Result<RolledBack, WorkspaceError> {
    refuse_before_touching(git, base)?;
    let look = Look::take(git, own)?;
    let target = match undo::plan(git, task, base, &look)? {
        Plan::Nothing => return Ok(RolledBack::default()),
        Plan::Go(target) => target,
    };
    let rescuing = Rescuing { git, own, task, attempt, base, subject: None };
    let stays = target.tip.as_ref().filter(|_| target.foreign);
    let recorded = untracked::recorded(git, base.untracked.as_ref())?;
    let flagged = flagged_as_recorded(git, &recorded)?;
    let mut saved = rescuing.save(look, stays)?;
    let moved = moved_submodules(git, &target.commit)?;
    return_to_claimed_branch(git, base)?;
    move_branch(git, base, &target)?;
    reset(git, own, &target.commit)?;
    while let Some(under_way) = UnderWay::find(git) {
        under_way.quit(git)?;
        if UnderWay::find(git) == Some(under_way) {
            return Err(under_way.refusal());
        }
    }
    for (path, commit) in moved {
        check_out_submodule(git, &path, &commit)?;
    }
    let mut put_back = untracked::put_back(git, &recorded)?;
    put_back.retain(|path| !flagged.contains(path));
    let look = Look::take(git, own)?;
    let mut leftover = look.untracked.clone();
    leftover.retain(|path| !recorded.contains_key(path));
    let known: BTreeSet<_> = saved.paths.iter().collect();
    if leftover.iter().any(|path| !known.contains(path)) {
        // The ignore rules of the attempt are gone now. Files that they hid are saved before they
        // are removed.
        saved = rescuing.save(look, Some(&target.commit))?;
    }
    for path in &leftover {
        fs::remove_file(path.under(&git.top_level))?;
    }
    untracked::prune_empty_folders(git, own, &recorded)?;
    Ok(RolledBack {
        undone: match target.foreign {
            false => Undone::Reset,
            true => Undone::Kept { head: target.commit, reverts: target.undone },
        },
        rescue: saved.rescue.map(|rescue| rescue.reference),
        put_back: put_back.iter().map(RepoPath::shown).collect(),
    })
}

/// Returns unchanged tracked files that the user hides from git. A reset overwrites them, and they
/// are put back without a report.
fn flagged_as_recorded(
    git: &Git,
    recorded: &Listing,
) -> Result<BTreeSet<RepoPath>, WorkspaceError> {
    let flagged: Vec<_> = Flags::read(git)?.paths().collect();
    if flagged.is_empty() {
        return Ok(BTreeSet::new());
    }
    untracked::unchanged(git, recorded, &flagged)
}

/// Compares and swaps, so that a commit that is made at this moment is not lost.
fn move_branch(git: &Git, base: &Base, target: &Target) -> Result<(), WorkspaceError> {
    let Some(tip) = target.tip.as_ref().filter(|tip| **tip != target.commit) else {
        return Ok(());
    };
    let reference =
        base.branch.as_ref().map_or_else(|| "HEAD".to_owned(), |name| format!("refs/heads/{name}"));
    let call = git.write("update-ref").args(["-m", "harness: undo", &reference]);
    call.args([target.commit.as_str(), tip.as_str()]).output().map(drop)
}

fn refuse_before_touching(git: &Git, base: &Base) -> Result<(), WorkspaceError> {
    if base.worktree != git.top_level {
        return Err(WorkspaceError::WrongWorktree {
            claimed: base.worktree.clone(),
            here: git.top_level.clone(),
        });
    }
    let kind = git.read("cat-file").args(["-t", base.commit.as_str()]).run()?;
    if kind.code != Some(0) || kind.stdout != b"commit\n" {
        return Err(WorkspaceError::NoSuchCommit { commit: base.commit.clone() });
    }
    refuse_locked_index(git)?;
    if !git.silenced.is_empty() {
        let files = list_tree(git, base.commit.as_str(), &[])?;
        refuse_silenced(git, Some(base.commit.as_str()), files.keys())?;
    }
    Ok(())
}

/// Points HEAD at the claimed branch (or detaches it, if it was detached). Only HEAD changes: the
/// branch that the agent was on keeps its commits.
fn return_to_claimed_branch(git: &Git, base: &Base) -> Result<(), WorkspaceError> {
    let symbolic = git.read("symbolic-ref").args(["--quiet", "HEAD"]).run()?;
    let current = String::from_utf8_lossy(&symbolic.stdout).trim().to_owned();
    match &base.branch {
        Some(branch) => {
            let claimed = format!("refs/heads/{branch}");
            if current != claimed {
                let call = git.write("symbolic-ref").args(["-m", "harness: back", "HEAD"]);
                call.arg(claimed).output()?;
            }
        }
        None if !current.is_empty() => {
            let call = git.write("update-ref").args(["--no-deref", "-m", "harness: back"]);
            call.args(["HEAD", base.commit.as_str()]).output()?;
        }
        None => {}
    }
    Ok(())
}

/// Performs `reset --hard`, but never touches a file of ours that is tracked. For those, the index
/// is first made equal to the work tree, and so is the tree to reset to.
fn reset(git: &Git, own: &OwnFiles, commit: &CommitId) -> Result<(), WorkspaceError> {
    let commit = commit.as_str();
    let ours = own.pathspecs();
    let in_index = git.read("ls-files").args(["-z", "--cached", "--"]).args(&ours).output()?;
    let in_base = list_tree(git, commit, &ours)?;
    let mut tracked: BTreeSet<_> = records(&in_index).map(RepoPath::new).collect();
    tracked.extend(in_base.into_keys());
    if tracked.is_empty() {
        return git.write("reset").args(["--quiet", "--hard", commit]).output().map(drop);
    }
    let update = ["--add", "--remove", "-z", "--stdin"];
    git.write("update-index").args(update).input(nul_separated(&tracked)).output()?;
    let aside = PrivateIndex::scratch(git)?;
    aside.read_tree(git, commit)?;
    aside.take(git, &tracked)?;
    let tree = aside.write_tree(git)?;
    git.write("read-tree").args(["--reset", "-u", tree.as_str()]).output()?;
    git.write("reset").args(["--quiet", "--mixed", commit]).output().map(drop)
}

/// Returns submodules whose checked-out commit differs from that of `commit`, with the commit
/// there.
fn moved_submodules(
    git: &Git,
    commit: &CommitId,
) -> Result<Vec<(RepoPath, String)>, WorkspaceError> {
    let gitlinks: Vec<_> = {
        let output = git.read("ls-files").args(["-z", "--stage"]).output()?;
        let links = records(&output).filter(|record| record.starts_with(GITLINK.as_bytes()));
        links
            .filter_map(|record| record.splitn(2, |b| *b == b'\t').nth(1))
            .map(RepoPath::new)
            .collect()
    };
    if gitlinks.is_empty() {
        return Ok(Vec::new());
    }
    let index = PrivateIndex::copy_of_users(git)?;
    index.take(git, &gitlinks)?;
    let changes = diff_trees(git, commit.as_str(), index.write_tree(git)?.as_str())?;
    let moved = changes.into_iter().filter_map(|change| match (change.before, change.after) {
        (Some(before), Some(after)) if before.mode == GITLINK && after.mode == GITLINK => {
            Some((change.path, before.object))
        }
        (_, _) => None,
    });
    Ok(moved.collect())
}

/// Checks out without force: we must not overwrite local changes inside a submodule, and git
/// refuses.
fn check_out_submodule(git: &Git, path: &RepoPath, commit: &str) -> Result<(), WorkspaceError> {
    let folder = path.under(&git.top_level);
    if !folder.join(".git").exists() {
        return Ok(());
    }
    let submodule = super::discover::repository(&folder)?;
    let call = submodule.write("checkout").args(["--quiet", "--detach", commit]);
    call.output().map(drop)
}
