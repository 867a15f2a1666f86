//! The branch of the user that follows the target on the server.

use super::{RemoteRepository, tips::Freshness};
use crate::workspace::{
    WorkspaceError,
    repository::branch::{commit_of, full, is_below},
};

impl RemoteRepository {
    /// Moves the branch of the main tree to the target, if it follows that and nothing is in the way.
    pub(super) fn follow_target(&self, target: &str) -> Result<(), WorkspaceError> {
        let main = &self.local.main;
        let Some(branch) = main.branch() else { return Ok(()) };
        let setting = |key: &str| {
            let call = main.git.read("config").args(["--get", &format!("branch.{branch}.{key}")]);
            call.line().unwrap_or_default()
        };
        if setting("remote") != self.name() || setting("merge") != full(target) {
            return Ok(());
        }
        // Without a landing of this process there is nothing to follow.
        if !self.tips.branches().iter().any(|known| known == target) {
            return Ok(());
        }
        let Some(to) = self.tip_of(target, Freshness::Recent)? else { return Ok(()) };
        let Some(from) = commit_of(&main.git, &full(&branch))? else { return Ok(()) };
        if from != to && is_below(&main.git, &from, &to)? {
            self.local.fast_forward(&branch, &from, &to)?;
        }
        Ok(())
    }
}
