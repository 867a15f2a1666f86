//! The simulated work tree of a worker.

use std::{path::PathBuf, sync::Arc};

use harness::workspace::{
    Base, WorkspaceError,
    shared::{InitScript, WorkerTree, task_branch, work_ref},
};
use harness_core::{CommitId, Epoch, TaskId, WorkerId};

use super::{SimRepository, port::made_up};
use crate::git::{Head, Model, SimGit};

const INIT_SCRIPT: &str = "harness-init.sh";

impl SimRepository {
    pub(super) fn make_ready(
        &self,
        worker: &WorkerId,
        commit: &CommitId,
    ) -> Result<WorkerTree, WorkspaceError> {
        let git = self.locked(worker)?;
        if !git.model().commits.contains_key(commit) {
            return Err(WorkspaceError::NoSuchCommit { commit: commit.clone() });
        }
        if git.model().is_there() {
            attach(&git, commit)?;
            save_all(&git, worker, commit)?;
            self.clear(&git, worker, commit)?;
        } else {
            git.op("link tree", |model| model.link(commit.clone()))?;
        }
        Ok(self.ready(git))
    }

    /// Resets and cleans a tree that was saved.
    pub(super) fn clear(
        &self,
        git: &SimGit,
        worker: &WorkerId,
        commit: &CommitId,
    ) -> Result<(), WorkspaceError> {
        let head = git.model().head_commit()?;
        git.op("detach tree", |model| model.head = Head::Detached(head))?;
        git.reset(commit)?;
        let leftover = git.model().untracked(&git.own);
        if !leftover.is_empty() {
            // Ignore rules that the reset removed had hidden these files. Others were saved before.
            save_all(git, worker, commit)?;
            for path in leftover.keys() {
                git.set_file("clean tree", path, None)?;
            }
        }
        Ok(())
    }

    pub(super) fn ready(&self, git: SimGit) -> WorkerTree {
        let init = {
            let script = self.main.read(INIT_SCRIPT);
            let last = git.model().others.scripts.get(&git.top_level).cloned();
            if script == last || script.is_none() { InitScript::Ran } else { InitScript::Due }
        };
        WorkerTree { workspace: Arc::new(git), init }
    }

    pub(super) fn note_init(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        let git = self.own_tree(worker)?;
        let place = git.top_level.clone();
        let script = self.main.read(INIT_SCRIPT).unwrap_or_default();
        git.op("init ran", |model| drop(model.others.scripts.insert(place, script)))
    }

    pub(super) fn branch_off(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<(), WorkspaceError> {
        let git = self.own_tree(worker)?;
        let (branch, head) = (task_branch(task, epoch), git.model().head_commit()?);
        let name = branch.clone();
        git.op("task branch", |model| drop(model.branches.insert(name, head)))?;
        git.op("tree on branch", |model| model.head = Head::Branch(branch))
    }

    pub(super) fn remove_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
        target: &str,
    ) -> Result<(), WorkspaceError> {
        let git = self.locked(worker)?;
        let branch = task_branch(task, epoch);
        let (tip, kept, on_it) = {
            let model = git.model();
            let Some(tip) = model.branches.get(&branch).cloned() else { return Ok(()) };
            let holders = model.branches.get(target).into_iter().chain(model.rescues.values());
            let kept = holders.into_iter().any(|holder| model.history(holder).contains(&tip));
            (tip, kept, model.is_there() && model.branch().as_ref() == Some(&branch))
        };
        if on_it {
            let commit = tip.clone();
            git.op("detach tree", |model| model.head = Head::Detached(commit))?;
        }
        if !kept {
            let (name, commit) = (format!("refs/harness/rescue/{task}/{epoch}"), tip.clone());
            git.op("rescue ref", |model| {
                let free = |name: &String| !model.rescues.contains_key(name);
                let numbered = (2..).map(|number| format!("{name}-{number}"));
                let name = std::iter::once(name.clone()).chain(numbered).find(free);
                drop(model.rescues.insert(name.unwrap_or_default(), commit));
            })?;
        }
        let work = work_ref(task, epoch);
        git.op("delete branch", |model| {
            if model.branches.get(&branch) == Some(&tip) {
                model.branches.remove(&branch);
                model.works.remove(&work);
            }
        })
    }

    pub(super) fn remove_tree(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        let git = self.locked(worker)?;
        if git.model().is_there() {
            let main = self.main.model().head_commit()?;
            attach(&git, &main)?;
            let head = git.model().head_commit()?;
            save_all(&git, worker, &head)?;
            git.op("unlink tree", Model::unlink)?;
        }
        self.main.model().others.locks.remove(&git.top_level);
        Ok(())
    }
}

/// Gives a tree a commit whose branch somebody deleted, so that its files are differences.
pub(super) fn attach(git: &SimGit, commit: &CommitId) -> Result<(), WorkspaceError> {
    if git.model().head_commit().is_ok() {
        return Ok(());
    }
    git.op("detach tree", |model| model.head = Head::Detached(commit.clone()))
}

/// Saves what a tree would lose if it became `commit`.
pub(super) fn save_all(
    git: &SimGit,
    worker: &WorkerId,
    commit: &CommitId,
) -> Result<(), WorkspaceError> {
    let (head, branch, kept) = {
        let model = git.model();
        let head = model.head_commit()?;
        let holders = model.branches.values().chain(model.rescues.values());
        let kept = holders.into_iter().any(|holder| model.history(holder).contains(&head));
        (head, model.branch(), kept)
    };
    let (task, epoch) = owner_of(branch.as_deref(), worker)?;
    let base = Base {
        commit: if kept { head } else { commit.clone() },
        branch: None,
        untracked: None,
        worktree: PathBuf::new(),
        epoch: None,
        claimed_at: None,
    };
    git.save(&task, epoch, &base, None).map(drop)
}

/// Returns the task under which a tree is saved, and a number.
fn owner_of(branch: Option<&str>, worker: &WorkerId) -> Result<(TaskId, u32), WorkspaceError> {
    let named = branch.and_then(|branch| branch.strip_prefix("harness/")?.rsplit_once('.'));
    let named =
        named.and_then(|(task, epoch)| Some((TaskId::parse(task).ok()?, epoch.parse().ok()?)));
    match named {
        Some(named) => Ok(named),
        None => Ok((TaskId::parse(&format!("worker-{worker}")).map_err(made_up)?, 0)),
    }
}
