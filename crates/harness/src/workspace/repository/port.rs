//! The implementation of the port [`SharedRepository`] by git.

use harness_core::{CommitId, Epoch, TaskId, Timestamp, WorkerId, command::LandedResult};

use super::{
    GitRepository,
    branch::{commit_of, create_branch, full, is_below},
    rebase,
};
use crate::workspace::{
    WorkspaceError,
    path::RepoPath,
    shared::{
        Dead, LANDED_BRANCH, Landed, Rebase, Rebased, SharedRepository, Swap, TakenIn, Token,
        WorkerTree,
    },
};

impl SharedRepository for GitRepository {
    fn check(&self) -> Result<(), WorkspaceError> {
        self.check_repository()
    }

    fn target(&self, wanted: Option<&str>) -> Result<String, WorkspaceError> {
        self.find_target(wanted)
    }

    fn tip(&self, branch: &str) -> Result<Option<CommitId>, WorkspaceError> {
        commit_of(&self.main.git, &full(branch))
    }

    fn divert(&self, target: &str) -> Result<CommitId, WorkspaceError> {
        create_branch(&self.main.git, LANDED_BRANCH, &full(target))
    }

    fn reset(&self, worker: &WorkerId, commit: &CommitId) -> Result<WorkerTree, WorkspaceError> {
        self.reset_tree(worker, commit)
    }

    fn init_ran(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        self.record_init(worker)
    }

    fn start_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<(), WorkspaceError> {
        self.start_task_branch(worker, task, epoch)
    }

    fn transplant(
        &self,
        worker: &WorkerId,
        dead: &Dead<'_>,
        epoch: Epoch,
    ) -> Result<Option<WorkerTree>, WorkspaceError> {
        self.transplant_tree(worker, dead, epoch)
    }

    fn rebase(&self, worker: &WorkerId, rebase: &Rebase) -> Result<Rebased, WorkspaceError> {
        self.check_version()?;
        let (_, workspace) = self.open(worker)?;
        rebase::rebase(&workspace, rebase)
    }

    fn set_token(&self, task: &TaskId, to: &CommitId) -> Result<(), WorkspaceError> {
        self.put_token(task, to)
    }

    fn void_token(&self, task: &TaskId, to: &CommitId) -> Result<Token, WorkspaceError> {
        self.take_token(task, to)
    }

    fn land(&self, swap: &Swap) -> Result<Landed, WorkspaceError> {
        self.land_swap(swap)
    }

    fn contains(&self, branch: &str, commit: &CommitId) -> Result<bool, WorkspaceError> {
        match commit_of(&self.main.git, &full(branch))? {
            Some(tip) => is_below(&self.main.git, commit, &tip),
            None => Ok(false),
        }
    }

    fn tokens(&self) -> Result<Vec<(TaskId, CommitId)>, WorkspaceError> {
        self.list_tokens()
    }

    fn landed_results(
        &self,
        branches: &[String],
        since: Option<Timestamp>,
    ) -> Result<Vec<LandedResult>, WorkspaceError> {
        self.find_results(branches, since)
    }

    fn files_between(&self, from: &CommitId, to: &CommitId) -> Result<Vec<String>, WorkspaceError> {
        let changes = self.changes(from, to)?;
        let mut paths: Vec<_> = changes.iter().map(|change| &change.path).collect();
        paths.sort();
        Ok(paths.into_iter().map(RepoPath::shown).collect())
    }

    fn finish_main_tree(&self, swap: &Swap) -> Result<(), WorkspaceError> {
        self.finish_swap(swap)
    }

    fn take_in(&self, target: &str) -> Result<TakenIn, WorkspaceError> {
        self.take_results(target)
    }

    fn end_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
        target: &str,
    ) -> Result<(), WorkspaceError> {
        self.end_task_branch(worker, task, epoch, target)
    }

    fn close(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        self.close_tree(worker).map(drop)
    }
}
