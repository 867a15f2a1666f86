//! The methods of the port, each with its parts in the other files.

use std::{collections::BTreeSet, io};

use harness::workspace::{
    WorkspaceError, result_of,
    shared::{
        Dead, Landed, Rebase, Rebased, SharedRepository, Swap, TakenIn, Token, WorkerTree,
        land_token,
    },
};
use harness_core::{CommitId, Epoch, TaskId, Timestamp, WorkerId, command::LandedResult};

use super::SimRepository;

impl SharedRepository for SimRepository {
    fn check(&self) -> Result<(), WorkspaceError> {
        self.end_stale_move()?;
        let model = self.main.model();
        model.head_commit()?;
        if model.branches.contains_key("harness") {
            return Err(WorkspaceError::Unsafe {
                what: "the branch harness forbids branches below that name".to_owned(),
                hint: "rename it: git branch -m harness other-name".to_owned(),
            });
        }
        Ok(())
    }

    fn target(&self, wanted: Option<&str>) -> Result<String, WorkspaceError> {
        self.chosen_target(wanted)
    }

    fn tip(&self, branch: &str) -> Result<Option<CommitId>, WorkspaceError> {
        Ok(self.main.tip(branch))
    }

    fn divert(&self, target: &str) -> Result<CommitId, WorkspaceError> {
        self.diverted(target)
    }

    fn reset(&self, worker: &WorkerId, commit: &CommitId) -> Result<WorkerTree, WorkspaceError> {
        self.make_ready(worker, commit)
    }

    fn init_ran(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        self.note_init(worker)
    }

    fn start_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<(), WorkspaceError> {
        self.branch_off(worker, task, epoch)
    }

    fn transplant(
        &self,
        worker: &WorkerId,
        dead: &Dead<'_>,
        epoch: Epoch,
    ) -> Result<Option<WorkerTree>, WorkspaceError> {
        self.take_over(worker, dead, epoch)
    }

    fn rebase(&self, worker: &WorkerId, rebase: &Rebase) -> Result<Rebased, WorkspaceError> {
        self.put_on_top(worker, rebase)
    }

    fn set_token(&self, task: &TaskId, to: &CommitId) -> Result<(), WorkspaceError> {
        let (name, to) = (land_token(task), to.clone());
        self.main.op("set token", |model| drop(model.tokens.insert(name, to)))
    }

    fn void_token(&self, task: &TaskId, to: &CommitId) -> Result<Token, WorkspaceError> {
        let name = land_token(task);
        self.main.op("void token", |model| {
            if model.tokens.get(&name) != Some(to) {
                return Token::Missing;
            }
            model.tokens.remove(&name);
            Token::Voided
        })
    }

    fn land(&self, swap: &Swap) -> Result<Landed, WorkspaceError> {
        self.swap(swap)
    }

    fn contains(&self, branch: &str, commit: &CommitId) -> Result<bool, WorkspaceError> {
        let model = self.main.model();
        let tip = model.branches.get(branch);
        Ok(tip.is_some_and(|tip| model.history(tip).contains(commit)))
    }

    fn tokens(&self) -> Result<Vec<(TaskId, CommitId)>, WorkspaceError> {
        let task = |name: &String| TaskId::parse(name.rsplit_once('/')?.1).ok();
        let model = self.main.model();
        let tokens = model.tokens.iter().filter_map(|(name, to)| Some((task(name)?, to.clone())));
        Ok(tokens.collect())
    }

    fn landed_results(
        &self,
        branches: &[String],
        _since: Option<Timestamp>,
    ) -> Result<Vec<LandedResult>, WorkspaceError> {
        let model = self.main.model();
        let tips = branches.iter().filter_map(|branch| model.branches.get(branch));
        let commits = tips.flat_map(|tip| model.newest_first(tip));
        Ok(commits.filter_map(|id| result_of(&id, &model.commits[&id].message)).collect())
    }

    fn files_between(&self, from: &CommitId, to: &CommitId) -> Result<Vec<String>, WorkspaceError> {
        let model = self.main.model();
        for commit in [from, to] {
            if !model.commits.contains_key(commit) {
                return Err(WorkspaceError::NoSuchCommit { commit: commit.clone() });
            }
        }
        let (from, to) = (model.files_of(from), model.files_of(to));
        let paths: BTreeSet<_> = from.keys().chain(to.keys()).collect();
        Ok(paths.into_iter().filter(|path| from.get(*path) != to.get(*path)).cloned().collect())
    }

    fn finish_main_tree(&self, swap: &Swap) -> Result<(), WorkspaceError> {
        self.finish(swap)
    }

    fn take_in(&self, target: &str) -> Result<TakenIn, WorkspaceError> {
        self.bring_in(target)
    }

    fn end_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
        target: &str,
    ) -> Result<(), WorkspaceError> {
        self.remove_branch(worker, task, epoch, target)
    }

    fn close(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        self.remove_tree(worker)
    }
}

/// The error of a name that the model made up and that does not parse.
pub(super) fn made_up(error: impl std::fmt::Display) -> WorkspaceError {
    io::Error::other(error.to_string()).into()
}
