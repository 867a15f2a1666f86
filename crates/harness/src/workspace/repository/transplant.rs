//! The work of a dead worker, brought into the tree of another one.

use std::sync::Arc;

use harness_core::{CommitId, Epoch, TaskId, TreeId, WorkerId};

use super::{
    GitRepository,
    branch::{full, is_below},
    entry::TreeEntry,
    provision::Provisions,
    tree::is_folder,
};
use crate::workspace::{
    GitWorkspace, Workspace as _, WorkspaceError,
    object::diff_trees,
    rescue::{Rescuing, resolve},
    restore,
    shared::{Dead, WorkerTree, task_branch, work_ref},
    snapshot::Snapshot,
    status::Look,
};

/// The work that is brought.
enum Work {
    /// A commit. The result of the attempt was on the way to land.
    Result(CommitId),
    /// The commit of HEAD and the files of the work tree.
    Files(CommitId, TreeId),
}

impl GitRepository {
    pub(super) fn transplant_tree(
        &self,
        worker: &WorkerId,
        dead: &Dead<'_>,
        epoch: Epoch,
    ) -> Result<Option<WorkerTree>, WorkspaceError> {
        if !self.has_begun(dead)? {
            return Ok(None);
        }
        let Some(other) = self.readable(dead)? else { return Ok(None) };
        let work = match self.work(&other, dead) {
            Ok(Some(work)) => work,
            Ok(None) => return Ok(None),
            Err(why) => {
                tracing::warn!(%why, tree = %dead.tree.display(), "a work tree cannot be read");
                return Ok(None);
            }
        };
        let (head, files) = match work {
            Work::Files(..) if other.git.top_level == self.place.tree(worker) => {
                // The worker finds its own tree again, which has the files already.
                return self.resume_tree(worker, dead.task, epoch).map(Some);
            }
            Work::Files(head, files) => (head, Some(files)),
            Work::Result(commit) => (commit, None),
        };
        self.bring_work(worker, (dead.task, epoch), &head, files.as_ref()).map(Some)
    }

    /// Puts the tree of a worker on the branch of an attempt at `head`, and writes the files of a tree
    /// over it.
    pub(super) fn bring_work(
        &self,
        worker: &WorkerId,
        (task, epoch): (&TaskId, Epoch),
        head: &CommitId,
        files: Option<&TreeId>,
    ) -> Result<WorkerTree, WorkspaceError> {
        let tree = self.reset_tree(worker, head)?;
        self.start_task_branch(worker, task, epoch)?;
        if let Some(files) = files {
            let (_, own) = self.open(worker)?;
            let git = own.git()?;
            let mut changes = diff_trees(&git, head.as_str(), files.as_str())?;
            changes.retain(|change| !own.own.own(change.path.bytes()));
            restore::write(&git, files.as_str(), &changes.iter().collect::<Vec<_>>())?;
            own.disturbed();
        }
        Ok(tree)
    }

    /// Returns whether the branch of the dead attempt exists.
    fn has_begun(&self, dead: &Dead<'_>) -> Result<bool, WorkspaceError> {
        let Some(epoch) = dead.base.epoch else { return Ok(true) };
        let branch = full(&task_branch(dead.task, epoch));
        Ok(resolve(&self.main.git, &branch)?.is_some())
    }

    /// Puts the tree of a worker on the branch of a new epoch. Its files stay.
    fn resume_tree(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<WorkerTree, WorkspaceError> {
        self.start_task_branch(worker, task, epoch)?;
        let (tree, workspace) = self.open(worker)?;
        let provisions = Provisions::find(&self.main, &self.settings)?;
        let workspace = self.with_brought(&tree, workspace, &provisions)?;
        workspace.disturbed();
        let init = self.init_script(&workspace)?;
        Ok(WorkerTree { workspace: Arc::new(workspace), init })
    }

    /// Returns the other tree, if it is a work tree of this repository.
    pub(super) fn readable(&self, dead: &Dead<'_>) -> Result<Option<GitWorkspace>, WorkspaceError> {
        if !is_folder(dead.tree) {
            return Ok(None);
        }
        let Ok(path) = dead.tree.canonicalize() else { return Ok(None) };
        if path == self.main.git.top_level {
            return Ok(Some(self.main.anew(self.main.filters)));
        }
        let Some(entry) = TreeEntry::find(&self.main.git, &path)? else { return Ok(None) };
        let provisions = Provisions::find(&self.main, &self.settings)?;
        let other = self.main.linked(path, entry.git_dir);
        self.brought_into(other, &provisions).map(Some)
    }

    /// Saves the state of the other tree and returns the work of the attempt; `None` if that does not
    /// descend from the base.
    fn work(&self, other: &GitWorkspace, dead: &Dead<'_>) -> Result<Option<Work>, WorkspaceError> {
        let git = other.git()?;
        let look = Look::take(&git, &other.own)?;
        let head = look.commit()?;
        let (own, task, attempt, base) = (&other.own, dead.task, dead.attempt, dead.base);
        let rescuing = Rescuing { git: &git, own, task, attempt, base, subject: None };
        rescuing.save(look.clone(), None)?;
        let result = match base.epoch {
            Some(epoch) => resolve(&git, &work_ref(task, epoch))?,
            None => None,
        };
        if !is_below(&git, &base.commit, result.as_ref().unwrap_or(&head))? {
            return Ok(None);
        }
        Ok(Some(match result {
            Some(commit) => Work::Result(commit),
            None => Work::Files(head, Snapshot::take(&git, own, look)?.tree),
        }))
    }
}
