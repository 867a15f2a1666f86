//! The results that are on a branch of the server, found without the ledger.

use harness_core::{CommitId, TaskId, command::LandedResult};

use super::{
    RemoteRepository,
    names::Names,
    push::{Pushed, Update},
    tips::Freshness,
};
use crate::workspace::{WorkspaceError, trailer::results_below};

impl RemoteRepository {
    pub(super) fn find_remote_results(
        &self,
        branches: &[String],
        kept: &[(TaskId, CommitId)],
    ) -> Result<Vec<LandedResult>, WorkspaceError> {
        self.void_tokens_except(kept)?;
        let mut found = Vec::new();
        for branch in branches {
            if let Some(tip) = self.reach(|| self.tip_of(branch, Freshness::Now))? {
                found.extend(results_below(&self.local.main.git, &tip)?);
            }
        }
        Ok(found)
    }

    fn void_tokens_except(&self, kept: &[(TaskId, CommitId)]) -> Result<(), WorkspaceError> {
        let ledger = self.settings.ledger.as_deref();
        let patterns: Vec<String> =
            Names::ALL.into_iter().map(|names| names.tokens(ledger) + "*").collect();
        loop {
            let listed = self.reach(|| self.transport.list(&patterns))?;
            let others = listed.iter().filter_map(|(name, commit)| {
                let task = Names::token_of(ledger, name)?;
                let is_kept = kept.iter().any(|(of, to)| *of == task && to == commit);
                (!is_kept).then(|| Update::delete(name, commit))
            });
            let updates: Vec<Update> = others.collect();
            if updates.is_empty() {
                return Ok(());
            }
            match self.reach(|| self.transport.push(&updates))? {
                // The next look shows what is left.
                Pushed::Done | Pushed::Overtaken => {}
                Pushed::Refused { why } => return Err(self.refused(&why)),
            }
        }
    }
}
