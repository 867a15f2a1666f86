//! The place in which work is judged.

use std::{path::Path, sync::Arc};

use harness::{
    Result,
    core::{CommitId, Task, TreeId},
    workspace::{Base, Workspace, WorkspaceError},
};

/// The place of the judged work. Its methods block.
pub trait Site: Send + Sync {
    /// The directory in which the check runs.
    fn directory(&self) -> &Path;
    /// Returns HEAD; `None` without a repository or a commit.
    fn head(&self) -> Option<CommitId>;
    /// Returns HEAD if that needs no git process; `None` if it does.
    fn head_at_once(&self) -> Option<Option<CommitId>> {
        None
    }
    /// The repository around the work.
    fn workspace(&self) -> Result<Arc<dyn Workspace>, WorkspaceError>;
    /// Returns the base that the claim started from; `None` if it recorded none.
    fn base(&self, task: &Task) -> Result<Option<Base>, WorkspaceError>;
    /// Returns the base that the judged tree is compared with; `None` if there is no tree.
    fn judged_from(&self, task: &Task) -> Result<Option<Base>, WorkspaceError> {
        self.base(task)
    }
    /// Returns the files in which a judged tree differs from a commit, sorted.
    fn uncommitted(
        &self,
        _commit: &CommitId,
        _tree: &TreeId,
    ) -> Result<Vec<String>, WorkspaceError> {
        Ok(Vec::new())
    }
    /// Commits the work of a client: this tree, or the files in their current state.
    fn commit(
        &self,
        task: &Task,
        tree: Option<&TreeId>,
        message: &str,
    ) -> Result<CommitId, WorkspaceError> {
        let git = self.workspace()?;
        let base = self.judged_from(task)?.ok_or(WorkspaceError::NoCommits)?;
        match tree {
            Some(tree) => git.commit_tree(&base, tree, message),
            None => git.commit(&base, message),
        }
    }
    /// Returns the tree of a commit, if there is one.
    fn tree_of(&self, commit: &CommitId) -> Result<Option<TreeId>, WorkspaceError>;
}

/// The work tree of a run.
pub(super) struct Here(pub(super) Arc<dyn Workspace>);

impl Site for Here {
    fn directory(&self) -> &Path {
        self.0.top_level()
    }

    fn head(&self) -> Option<CommitId> {
        self.0.head().ok()
    }

    fn workspace(&self) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        Ok(Arc::clone(&self.0))
    }

    fn base(&self, task: &Task) -> Result<Option<Base>, WorkspaceError> {
        Ok(Base::of_claim(task, self.0.top_level()))
    }

    fn tree_of(&self, commit: &CommitId) -> Result<Option<TreeId>, WorkspaceError> {
        self.0.tree_of(commit).map(Some)
    }
}
