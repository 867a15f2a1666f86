//! Takes back what landed for some tasks: revert commits on the target, which are judged before they
//! land.

use std::{collections::BTreeSet, path::Path};

use harness_core::{CommitId, TaskId, check::Verdict};

use crate::{
    check::Check,
    shell::{Cancel, Shell},
    workspace::{
        GitRepository, RevertChain, Workspace, WorkspaceError,
        shared::{Landed, SharedRepository, Swap},
    },
};

/// The number of times that the commits are made again because the target has moved.
const TRIES: usize = 5;

/// What is to be taken back, and what must hold without it.
pub struct Reversal<'a> {
    /// The repository.
    pub repository: &'a GitRepository,
    /// The repository that has the target, which may be a remote.
    pub shared: &'a dyn SharedRepository,
    /// The main tree, from which checkouts are made.
    pub workspace: &'a dyn Workspace,
    /// The state root.
    pub root: &'a Path,
    /// The branch on which the work landed.
    pub target: &'a str,
    /// The tasks whose work is taken back.
    pub tasks: BTreeSet<TaskId>,
    /// The checks that must pass on the result, each with a task that it belongs to.
    pub checks: Vec<(TaskId, Check)>,
}

/// The end of a reversal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReversalEnd {
    /// The target has no commit of the tasks that is not taken back already.
    Nothing,
    /// The target has moved.
    Landed {
        /// Its new tip.
        commit: CommitId,
        /// The commits that were taken back, newest first.
        reverted: Vec<CommitId>,
    },
    /// Later commits changed the same lines. Nothing has changed.
    Conflict {
        /// The commit that cannot be taken back.
        commit: CommitId,
        /// The files.
        files: Vec<String>,
    },
    /// A check does not pass without the work. Nothing has changed.
    Refused {
        /// The task of the check.
        task: TaskId,
        /// The command.
        command: String,
        /// Its result.
        verdict: Verdict,
    },
    /// The target is checked out in a tree that must not be touched. Nothing has changed.
    InUse {
        /// The reason, for people.
        why: String,
    },
    /// The target moved too often. Nothing has changed.
    Busy,
}

impl Reversal<'_> {
    /// Makes the commits, judges them and lands them. `begins` is called before each check.
    pub fn perform(
        &self,
        shell: &dyn Shell,
        cancel: &Cancel,
        begins: &mut dyn FnMut(&TaskId, &Check),
    ) -> Result<ReversalEnd, WorkspaceError> {
        let mut judged = None;
        for _ in 0..TRIES {
            self.shared.refresh(self.target)?;
            let tip = self.shared.tip(self.target)?.ok_or(WorkspaceError::NoCommits)?;
            let (onto, commit, tree, reverted) =
                match self.repository.revert_on(&tip, &self.tasks)? {
                    RevertChain::Nothing => return Ok(ReversalEnd::Nothing),
                    RevertChain::Conflict { commit, files } => {
                        return Ok(ReversalEnd::Conflict { commit, files });
                    }
                    RevertChain::Made { onto, commit, tree, reverted } => {
                        (onto, commit, tree, reverted)
                    }
                };
            if judged.as_ref() != Some(&tree) {
                if let Some(refused) = self.judge(&commit, shell, cancel, begins)? {
                    return Ok(refused);
                }
                judged = Some(tree);
            }
            match self.land(onto, &commit)? {
                Landed::Done => return Ok(ReversalEnd::Landed { commit, reverted }),
                Landed::TreeInUse { why } => return Ok(ReversalEnd::InUse { why }),
                // A cleanup may have removed the token, or a result has landed meanwhile.
                Landed::TargetMoved | Landed::Fenced => {}
            }
        }
        Ok(ReversalEnd::Busy)
    }

    fn judge(
        &self,
        commit: &CommitId,
        shell: &dyn Shell,
        cancel: &Cancel,
        begins: &mut dyn FnMut(&TaskId, &Check),
    ) -> Result<Option<ReversalEnd>, WorkspaceError> {
        for (task, check) in &self.checks {
            begins(task, check);
            let checked = check.run_clean(shell, self.workspace, self.root, commit, cancel)?;
            if checked.verdict != Verdict::Passed {
                let (task, command) = (task.clone(), check.command.clone());
                let verdict = checked.verdict;
                return Ok(Some(ReversalEnd::Refused { task, command, verdict }));
            }
        }
        Ok(None)
    }

    /// Moves the target. No intent is recorded, because a repetition finds the commits on the target.
    fn land(&self, from: CommitId, to: &CommitId) -> Result<Landed, WorkspaceError> {
        let Some(task) = self.tasks.first() else { return Ok(Landed::TargetMoved) };
        self.shared.set_token(task, to)?;
        let (task, target) = (task.clone(), self.target.to_owned());
        let swap = Swap { task, target, from, to: to.clone() };
        let landed = self.shared.land(&swap);
        if !matches!(landed, Ok(Landed::Done)) {
            self.shared.void_token(&swap.task, to)?;
        }
        landed
    }
}
