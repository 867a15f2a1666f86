//! The simulated rebase, with files as the unit of a conflict.

use harness::workspace::{
    WorkspaceError,
    shared::{LandStyle, Rebase, Rebased, task_branch, work_ref},
    with_trailer,
};
use harness_core::{CommitId, WorkerId};

use super::SimRepository;
use crate::git::{Head, Model, SimCommit, SimGit, undo::merged};

impl SimRepository {
    pub(super) fn put_on_top(
        &self,
        worker: &WorkerId,
        rebase: &Rebase,
    ) -> Result<Rebased, WorkspaceError> {
        let git = self.own_tree(worker)?;
        let commits = {
            let model = git.model();
            if !model.history(&rebase.work).contains(&rebase.base) {
                let found = rebase.work.to_string();
                return Err(WorkspaceError::NotDescendant { found, base: rebase.base.clone() });
            }
            match rebase.style {
                LandStyle::Rebase => picked(&model, rebase),
                LandStyle::Squash => squashed(&model, rebase),
            }
        };
        let kept = work_ref(&rebase.task, rebase.epoch);
        if !git.model().works.contains_key(&kept) {
            let work = rebase.work.clone();
            git.op("work ref", |model| drop(model.works.insert(kept, work)))?;
        }
        let mut tip = rebase.onto.clone();
        for (before, commit) in commits {
            let ours = git.model().files_of(&tip);
            let files = match merged(&before, ours.clone(), &commit.files) {
                Ok(files) => files,
                Err(files) => return Ok(Rebased::Conflict { files }),
            };
            if files == ours {
                continue;
            }
            let message = with_trailer(&commit.message, &rebase.task, rebase.epoch);
            let parents = vec![tip.clone()];
            let commit = SimCommit { parents, files, message, base: None, ..commit };
            tip = git.op("rebase commit", |model| model.put_commit(commit))??;
        }
        check_out(&git, rebase, &tip)?;
        let mut model = git.model();
        let files = model.files_of(&tip);
        let tree = model.add_tree(files)?;
        Ok(Rebased::Done { commit: tip, tree })
    }
}

/// A commit, and the files before it.
type Pick = (crate::git::Files, SimCommit);

/// Returns the commits of the work, oldest first, without merges.
fn picked(model: &Model, rebase: &Rebase) -> Vec<Pick> {
    let mut below = model.history(&rebase.base);
    below.extend(model.history(&rebase.onto));
    let since = model.history(&rebase.work).into_iter().filter(|id| !below.contains(id));
    let mut since: Vec<_> = since.filter_map(|id| model.commits.get(&id).cloned()).collect();
    since.retain(|commit| commit.parents.len() < 2);
    since.sort_by_key(|commit| commit.when);
    let before = |commit: &SimCommit| commit.parents.first().map(|p| model.files_of(p));
    since.into_iter().map(|commit| (before(&commit).unwrap_or_default(), commit)).collect()
}

/// Returns the work as one commit.
fn squashed(model: &Model, rebase: &Rebase) -> Vec<Pick> {
    let last = model.commits.get(&rebase.work).filter(|_| rebase.work != rebase.base);
    let one = last.map(|last| SimCommit { message: rebase.message.clone(), ..last.clone() });
    one.map(|one| (model.files_of(&rebase.base), one)).into_iter().collect()
}

/// Puts the branch of the attempt and the worker's tree at a commit.
fn check_out(git: &SimGit, rebase: &Rebase, tip: &CommitId) -> Result<(), WorkspaceError> {
    let head = git.model().head_commit()?;
    git.op("detach tree", |model| model.head = Head::Detached(head))?;
    git.reset(tip)?;
    let branch = task_branch(&rebase.task, rebase.epoch);
    let (name, commit) = (branch.clone(), tip.clone());
    git.op("rebase branch", |model| drop(model.branches.insert(name, commit)))?;
    git.op("tree on branch", |model| model.head = Head::Branch(branch))
}
