//! What `harness task complete` rests on where it asks no host: this process has the check run.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use harness::{
    completion::{Clerk, Standing},
    shell::Cancel,
    workspace::{GitWorkspace, glance},
};
use harness_core::{Command, Reply, Task, TaskId};

use super::Invocation;
use crate::{
    failure::{Failure, Result},
    render::visible,
    root::StateRoot,
    store::warn,
    trust,
};

/// Records in the files, under the lock.
pub(super) struct ByFiles<'a> {
    pub(super) invocation: &'a Invocation,
    pub(super) root: &'a StateRoot,
}

impl ByFiles<'_> {
    /// HARNESS_WORKTREE, else the top of the repository, else the state root.
    pub(super) fn worktree(&self) -> PathBuf {
        self.invocation.worktree(self.root)
    }
}

impl Invocation {
    /// Where checks run, unless a claim says otherwise.
    pub(crate) fn worktree(&self, root: &StateRoot) -> PathBuf {
        let told = self.env.path("HARNESS_WORKTREE").map(PathBuf::from);
        let found = told.or_else(|| glance::top_level(root.path()));
        found.unwrap_or_else(|| root.path().to_owned())
    }

    /// Says no where the ledger came from somebody else.
    pub(crate) fn may_run(&self, root: &StateRoot) -> Result<()> {
        trust::require(&self.env, root)
    }
}

impl Clerk for ByFiles<'_> {
    type Error = Failure;

    fn standing(&self, task: &TaskId) -> Result<Standing> {
        let ledger = self.invocation.look(self.root)?;
        Ok(Standing {
            task: ledger.task(task).cloned(),
            next_epoch: ledger.next_epoch(),
            session: ledger.head().session_count,
        })
    }

    fn apply(&self, command: Command) -> Result<Reply> {
        self.invocation.apply(self.root, command)
    }

    fn may_run(&self) -> Result<()> {
        self.invocation.may_run(self.root)
    }

    /// Ctrl-C ends the check with everything that it started.
    fn checking(&self, task: &Task) -> Result<Cancel> {
        let command = visible(task.check().unwrap_or_default());
        _ = writeln!(std::io::stderr(), "checking {}: {command}", task.id);
        self.invocation.interrupt.request()
    }

    fn workspace(&self, directory: &Path) -> Result<GitWorkspace> {
        self.invocation.workspace_of(self.root, directory)
    }

    fn warn(&self, text: &str) {
        warn(text);
    }
}
