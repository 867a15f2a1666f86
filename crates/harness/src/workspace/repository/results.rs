//! The results that are on a branch and the tokens of landings, found without the ledger.

use harness_core::{CommitId, TaskId, Timestamp, command::LandedResult};

use super::{
    GitRepository,
    branch::{commit_of, full},
};
use crate::workspace::{
    WorkspaceError, git::failed, object::commit_id, shared::TOKENS, trailer::results_below,
};

impl GitRepository {
    pub(super) fn find_results(
        &self,
        branches: &[String],
        since: Option<Timestamp>,
    ) -> Result<Vec<LandedResult>, WorkspaceError> {
        let git = &self.main.git;
        let mut found = Vec::new();
        for branch in branches {
            if let Some(tip) = commit_of(git, &full(branch))? {
                found.extend(results_below(git, &tip, since)?);
            }
        }
        Ok(found)
    }

    pub(super) fn list_tokens(&self) -> Result<Vec<(TaskId, CommitId)>, WorkspaceError> {
        let call = self.main.git.read("for-each-ref");
        let listed = call.args(["--format=%(objectname) %(refname)", TOKENS]).output()?;
        let mut tokens = Vec::new();
        for line in String::from_utf8_lossy(&listed).lines() {
            let Some((commit, name)) = line.split_once(' ') else {
                return Err(failed("for-each-ref", b"unexpected output"));
            };
            let task = name.strip_prefix(TOKENS).and_then(|task| TaskId::parse(task).ok());
            if let Some(task) = task {
                tokens.push((task, commit_id(commit)?));
            }
        }
        Ok(tokens)
    }
}
