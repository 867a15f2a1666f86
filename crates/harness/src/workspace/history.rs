//! The commits since a claim, and their authors.

use harness_core::{CommitId, TaskId};

use super::{
    Base, WorkspaceError,
    git::{Git, failed},
    mark::{CommitAuthor, author},
    object::commit_id,
    path::records,
};

/// The commits between the base and a tip, newest first, by their author.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) attempts: Vec<Since>,
    pub(super) foreign: Vec<CommitId>,
    /// `true` if a commit has already undone the attempt.
    pub(super) undone: bool,
}

#[derive(Debug)]
pub(super) struct Since {
    pub(super) commit: CommitId,
    pub(super) parents: usize,
}

impl History {
    /// Reads the commits. `tip` must not be an option, and the base must exist.
    pub(super) fn read(
        git: &Git,
        task: &TaskId,
        base: &Base,
        tip: &str,
    ) -> Result<Self, WorkspaceError> {
        let mut history = Self::default();
        if tip == base.commit.as_str() {
            return Ok(history);
        }
        let call = git.read("log").args(["-z", "--topo-order", "--format=%H%n%P%n%cn%n%B", tip]);
        let output = call.arg(format!("^{}", base.commit)).output()?;
        for record in records(&output) {
            let text = String::from_utf8_lossy(record);
            let fields: Vec<_> = text.splitn(4, '\n').collect();
            let [commit, parents, committer, message] = fields[..] else {
                return Err(failed("log", b"unexpected output"));
            };
            let (commit, parents) = (commit_id(commit)?, parents.split_whitespace().count());
            match author(committer, message, task, base.epoch) {
                CommitAuthor::Attempt => history.attempts.push(Since { commit, parents }),
                CommitAuthor::Foreign => history.foreign.push(commit),
                CommitAuthor::Undo => history.undone = true,
            }
        }
        Ok(history)
    }
}
