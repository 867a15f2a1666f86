//! `--allow-dirty`: changes of the user are set aside for the session and put back after it.

use harness::{
    clock::{Clock, SystemClock},
    workspace::{GitWorkspace, Sight, Workspace, WorkspaceError},
};
use harness_core::{
    Ledger, TaskId,
    task::{Status, Via},
};

use crate::{failure::Result, paint::warn};

/// The name for a user's changes: `refs/harness/rescue/user/<seconds since 1970>`.
const USER: &str = "user";

/// Changes that wait for the end of the session.
pub(super) struct SetAside {
    workspace: GitWorkspace,
    reference: String,
}

impl SetAside {
    /// Saves the changes of tracked files, then removes them from the tree. Untracked files stay
    /// where they are. Returns `None` if there is nothing to set aside, or if an interrupted task
    /// explains the changes, because they are its work.
    pub(super) fn take(workspace: &GitWorkspace, ledger: &Ledger) -> Result<Option<Self>> {
        let interrupted = |t: &harness_core::Task| {
            t.status() == Status::InProgress && t.claimed_via() == Via::Run
        };
        if ledger.tasks().any(interrupted) || workspace.status()?.changed.is_empty() {
            return Ok(None);
        }
        workspace.preflight()?;
        let user = TaskId::parse(USER)?;
        let seconds = u32::try_from(SystemClock.now().seconds()).unwrap_or(u32::MAX);
        let base = workspace.base(&user, Sight::Anew)?;
        let saved = workspace.rollback(&user, seconds, &base)?.rescue;
        workspace.forget(&user)?;
        let Some(reference) = saved else { return Ok(None) };
        warn(&format!("your changes are kept in {reference} until the session ends"));
        Ok(Some(Self { workspace: workspace.clone(), reference }))
    }

    /// Puts them back if they apply cleanly. Otherwise it shows how to do it.
    pub(super) fn put_back(self) -> Result<()> {
        let kept =
            self.workspace.rescues(None)?.into_iter().find(|r| r.reference == self.reference);
        let name = self.reference.trim_start_matches("refs/harness/rescue/").to_owned();
        let Some(kept) = kept else {
            warn(&format!("{} is gone: your changes were not restored", self.reference));
            return Ok(());
        };
        match self.workspace.restore(&kept) {
            Ok(_) => Ok(()),
            Err(WorkspaceError::WouldOverwrite { files } | WorkspaceError::Conflicts { files }) => {
                let files = files.join(", ");
                warn(&format!(
                    "your changes conflict with the work on {files}; they are kept: \
                     `harness rescue show {name}`"
                ));
                Ok(())
            }
            Err(other) => Err(other.into()),
        }
    }
}
