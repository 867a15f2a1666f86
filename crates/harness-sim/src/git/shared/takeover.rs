//! The simulated transplant: the state of a dead worker's tree in the tree of another one.

use std::collections::BTreeSet;

use harness::workspace::{
    WorkspaceError,
    shared::{Dead, WorkerTree, task_branch, work_ref},
};
use harness_core::{CommitId, Epoch, WorkerId};

use super::{
    SimRepository,
    tree::{attach, save_all},
};
use crate::git::{Files, SimGit};

impl SimRepository {
    pub(super) fn take_over(
        &self,
        worker: &WorkerId,
        dead: &Dead<'_>,
        epoch: Epoch,
    ) -> Result<Option<WorkerTree>, WorkspaceError> {
        let left = self.main.at(dead.tree);
        if !left.model().is_there() || left.model().head_commit().is_err() {
            return Ok(None);
        }
        left.save(dead.task, dead.attempt, dead.base, None)?;
        let Some((head, files)) = state_of(&left, dead)? else { return Ok(None) };
        let git = self.locked(worker)?;
        if git.model().is_there() {
            attach(&git, &head)?;
            save_all(&git, worker, &head)?;
            self.clear(&git, worker, &head)?;
        } else {
            git.op("link tree", |model| model.link(head.clone()))?;
        }
        self.branch_off(worker, dead.task, epoch)?;
        bring(&git, &head, &files)?;
        Ok(Some(self.ready(git)))
    }
}

/// Returns HEAD and the files to bring; `None` if the work does not descend from the base, or was
/// never begun.
fn state_of(left: &SimGit, dead: &Dead<'_>) -> Result<Option<(CommitId, Files)>, WorkspaceError> {
    let epoch = dead.base.epoch.unwrap_or_default();
    let model = left.model();
    if !model.is_there() || model.head_commit().is_err() {
        // Another process has just removed the tree.
        return Ok(None);
    }
    if !model.branches.contains_key(&task_branch(dead.task, epoch)) {
        return Ok(None);
    }
    let (head, files) = match model.works.get(&work_ref(dead.task, epoch)) {
        Some(work) => (work.clone(), model.files_of(work)),
        None => (model.head_commit()?, model.snapshot(&left.own)),
    };
    let descends = model.history(&head).contains(&dead.base.commit);
    Ok(descends.then_some((head, files)))
}

/// Writes the uncommitted and untracked files into a clean tree.
fn bring(git: &SimGit, head: &CommitId, files: &Files) -> Result<(), WorkspaceError> {
    let tracked = git.model().files_of(head);
    let paths: BTreeSet<_> = tracked.keys().chain(files.keys()).collect();
    for path in paths.into_iter().filter(|path| !git.own.own(path.as_bytes())) {
        git.set_file("transplant file", path, files.get(path))?;
    }
    Ok(())
}
