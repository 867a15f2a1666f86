//! The results that are on a branch, found without the ledger.

use harness_core::{CommitId, TaskId, command::LandedResult};

use super::{
    GitRepository,
    branch::{commit_of, full},
    land::RefChanges,
};
use crate::workspace::{
    WorkspaceError,
    git::failed,
    object::commit_id,
    shared::{TOKENS, land_token},
    trailer::results_below,
};

impl GitRepository {
    pub(super) fn find_results(
        &self,
        branches: &[String],
        kept: &[(TaskId, CommitId)],
    ) -> Result<Vec<LandedResult>, WorkspaceError> {
        self.void_tokens_except(kept)?;
        let git = &self.main.git;
        let mut found = Vec::new();
        for branch in branches {
            if let Some(tip) = commit_of(git, &full(branch))? {
                found.extend(results_below(git, &tip)?);
            }
        }
        Ok(found)
    }

    fn void_tokens_except(&self, kept: &[(TaskId, CommitId)]) -> Result<(), WorkspaceError> {
        let git = &self.main.git;
        let call = git.read("for-each-ref").args(["--format=%(objectname) %(refname)", TOKENS]);
        let listed = call.output()?;
        for line in String::from_utf8_lossy(&listed).lines() {
            let Some((commit, token)) = line.split_once(' ') else {
                return Err(failed("for-each-ref", b"unexpected output"));
            };
            let commit = commit_id(commit)?;
            let is_kept =
                |(task, to): &(TaskId, CommitId)| land_token(task) == token && *to == commit;
            if kept.iter().any(is_kept) {
                continue;
            }
            let ran =
                RefChanges::default().delete(token, &commit).run(git, "harness: must not land")?;
            // A landing may have taken it meanwhile. Its result is on the branch then.
            if ran.code != Some(0) && commit_of(git, token)?.as_ref() == Some(&commit) {
                return Err(failed("update-ref", &ran.stderr));
            }
        }
        Ok(())
    }
}
