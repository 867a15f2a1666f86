//! The results that are on a branch of the server and the tokens of landings, found without the ledger.

use harness_core::{CommitId, TaskId, Timestamp, command::LandedResult};

use super::{RemoteRepository, names::Names, tips::Freshness};
use crate::workspace::{WorkspaceError, trailer::results_below};

impl RemoteRepository {
    pub(super) fn find_remote_results(
        &self,
        branches: &[String],
        since: Option<Timestamp>,
    ) -> Result<Vec<LandedResult>, WorkspaceError> {
        let mut found = Vec::new();
        for branch in branches {
            if let Some(tip) = self.reach(|| self.tip_of(branch, Freshness::Now))? {
                found.extend(results_below(&self.local.main.git, &tip, since)?);
            }
        }
        Ok(found)
    }

    pub(super) fn list_remote_tokens(&self) -> Result<Vec<(TaskId, CommitId)>, WorkspaceError> {
        let ledger = self.settings.ledger.as_deref();
        let all = Names::ALL.into_iter();
        let patterns: Vec<String> = all.map(|names| names.tokens(ledger) + "*").collect();
        let listed = self.reach(|| self.transport.list(&patterns))?;
        let token =
            |(name, commit): (String, CommitId)| Some((Names::token_of(ledger, &name)?, commit));
        Ok(listed.into_iter().filter_map(token).collect())
    }
}
