//! The place where a daemon looks at the work of clients: a work tree with git and a shell, or a
//! simulated one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use harness_core::{CommitId, Receipt, Task};

use crate::{
    error::Result,
    flows::{
        Site,
        client_tree::{ClientTree, ForeignTree, Repositories},
    },
    shell::{Shell, SystemShell},
    workspace::{Bring, Filters, glance},
};

/// The port of a daemon to the work of its clients. All methods except
/// [`head_at_once`](Workshop::head_at_once) may block.
pub trait Workshop: Send + Sync {
    /// Returns the work tree of the daemon.
    fn directory(&self) -> &Path;

    /// Returns the shell that runs checks and gates.
    fn shell(&self) -> Arc<dyn Shell>;

    /// Returns HEAD of the work tree if that needs no process of git; otherwise `None`.
    fn head_at_once(&self) -> Option<Option<CommitId>>;

    /// Returns HEAD of the work tree; `None` if there is no repository or no commit.
    fn head(&self) -> Option<CommitId>;

    /// Returns the tree of a client: the work tree of the daemon, or the one of its claim.
    fn site(
        &self,
        root: &Path,
        claimed: Option<&Path>,
        filters: Filters,
        bring: Bring,
    ) -> Result<Arc<dyn Site>, ForeignTree>;

    /// Records git's settings for a new claim before the worker starts. The error is for a warning.
    fn record_settings(&self, root: &Path, task: &Task) -> Result<(), String>;

    /// Makes the receipt of a completion durable.
    fn keep_receipt(&self, root: &Path, receipt: &Receipt) -> Result<()>;
}

/// The work tree of a daemon on this machine.
pub(super) struct OwnTree {
    worktree: PathBuf,
    repositories: Arc<Repositories>,
}

impl OwnTree {
    /// Settings of git are recorded in the directory `records`; `None` for nowhere.
    pub(super) fn new(worktree: PathBuf, records: Option<PathBuf>) -> Self {
        Self { worktree, repositories: Arc::new(Repositories::recording_in(records)) }
    }

    fn tree(
        &self,
        root: &Path,
        claimed: Option<&Path>,
        filters: Filters,
    ) -> Result<ClientTree, ForeignTree> {
        let repositories = Arc::clone(&self.repositories);
        ClientTree::new(&self.worktree, claimed, root, filters, repositories)
    }
}

impl Workshop for OwnTree {
    fn directory(&self) -> &Path {
        &self.worktree
    }

    fn shell(&self) -> Arc<dyn Shell> {
        Arc::new(SystemShell::default())
    }

    fn head_at_once(&self) -> Option<Option<CommitId>> {
        glance::head_at_once(&self.worktree)
    }

    fn head(&self) -> Option<CommitId> {
        glance::head(&self.worktree)
    }

    fn site(
        &self,
        root: &Path,
        claimed: Option<&Path>,
        filters: Filters,
        bring: Bring,
    ) -> Result<Arc<dyn Site>, ForeignTree> {
        Ok(Arc::new(self.tree(root, claimed, filters)?.bringing(bring)))
    }

    fn record_settings(&self, root: &Path, task: &Task) -> Result<(), String> {
        let tree = self.tree(root, None, Filters::Off).map_err(|why| why.to_string())?;
        tree.record_settings(task).map_err(|why| why.to_string())
    }

    fn keep_receipt(&self, root: &Path, receipt: &Receipt) -> Result<()> {
        Ok(crate::store::record(root, receipt)?)
    }
}
