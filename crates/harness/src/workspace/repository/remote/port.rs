//! The implementation of the port [`SharedRepository`] by a clone and the server of its remote.

use harness_core::{CommitId, Epoch, TaskId, Timestamp, WorkerId, command::LandedResult};

use super::{RemoteRepository, tips::Freshness};
use crate::workspace::{
    WorkspaceError,
    shared::{
        BackedUp, Backup, Dead, Landed, Rebase, Rebased, SharedRepository, Swap, TakenIn, Token,
        WorkerTree,
    },
};

impl SharedRepository for RemoteRepository {
    fn check(&self) -> Result<(), WorkspaceError> {
        self.local.check()
    }

    fn remote(&self) -> Option<String> {
        Some(self.name().to_owned())
    }

    fn refresh(&self, branch: &str) -> Result<(), WorkspaceError> {
        self.reach_soon(|| self.tip_of(branch, Freshness::Now)).map(drop)
    }

    fn target(&self, wanted: Option<&str>) -> Result<String, WorkspaceError> {
        self.find_remote_target(wanted)
    }

    fn tip(&self, branch: &str) -> Result<Option<CommitId>, WorkspaceError> {
        self.tip_of(branch, Freshness::Recent)
    }

    fn divert(&self, target: &str) -> Result<CommitId, WorkspaceError> {
        self.divert_on_remote(target)
    }

    fn reset(&self, worker: &WorkerId, commit: &CommitId) -> Result<WorkerTree, WorkspaceError> {
        self.bring(commit)?;
        self.local.reset(worker, commit)
    }

    fn init_ran(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        self.local.init_ran(worker)
    }

    fn start_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<(), WorkspaceError> {
        self.local.start_branch(worker, task, epoch)
    }

    fn transplant(
        &self,
        worker: &WorkerId,
        dead: &Dead<'_>,
        epoch: Epoch,
    ) -> Result<Option<WorkerTree>, WorkspaceError> {
        let brought = match self.local.readable(dead)? {
            Some(_) => self.local.transplant(worker, dead, epoch)?,
            None => self.recover(worker, dead, epoch)?,
        };
        self.share_rescues();
        Ok(brought)
    }

    fn rebase(&self, worker: &WorkerId, rebase: &Rebase) -> Result<Rebased, WorkspaceError> {
        match self.bring(&rebase.onto) {
            // The entry before it has announced something else by now. It is no verdict.
            Err(WorkspaceError::NoSuchCommit { .. }) => {
                return Ok(Rebased::Conflict { files: Vec::new() });
            }
            brought => brought?,
        }
        let rebased = self.local.rebase(worker, rebase)?;
        match &rebased {
            // Nothing is announced that the server does not have.
            Rebased::Done { commit, .. } if *commit != rebase.onto => {
                self.publish(worker, rebase, commit)?;
            }
            Rebased::Done { .. } | Rebased::Conflict { .. } => {}
        }
        Ok(rebased)
    }

    fn set_token(&self, task: &TaskId, to: &CommitId) -> Result<(), WorkspaceError> {
        self.put_token(task, to)
    }

    fn void_token(&self, task: &TaskId, to: &CommitId) -> Result<Token, WorkspaceError> {
        self.take_token(task, to)
    }

    fn land(&self, swap: &Swap) -> Result<Landed, WorkspaceError> {
        self.land_on_remote(swap)
    }

    fn contains(&self, branch: &str, commit: &CommitId) -> Result<bool, WorkspaceError> {
        self.branch_contains(branch, commit)
    }

    fn tokens(&self) -> Result<Vec<(TaskId, CommitId)>, WorkspaceError> {
        self.list_remote_tokens()
    }

    fn landed_results(
        &self,
        branches: &[String],
        since: Option<Timestamp>,
    ) -> Result<Vec<LandedResult>, WorkspaceError> {
        self.find_remote_results(branches, since)
    }

    fn files_between(&self, from: &CommitId, to: &CommitId) -> Result<Vec<String>, WorkspaceError> {
        self.local.files_between(from, to)
    }

    /// A landing on a server moves no file of the main tree.
    fn finish_main_tree(&self, _: &Swap) -> Result<(), WorkspaceError> {
        Ok(())
    }

    fn take_in(&self, target: &str) -> Result<TakenIn, WorkspaceError> {
        self.take_in_on_remote(target)
    }

    fn back_up(&self, worker: &WorkerId, backup: &Backup<'_>) -> Result<BackedUp, WorkspaceError> {
        self.push_backup(worker, backup)
    }

    fn follow(&self, target: &str) -> Result<(), WorkspaceError> {
        self.follow_target(target)
    }

    fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.state().warnings)
    }

    fn end_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
        target: &str,
    ) -> Result<(), WorkspaceError> {
        self.local.end_branch(worker, task, epoch, target)?;
        self.share_rescues();
        match self.end_work(task, epoch) {
            // What stays on the server is found by `gc`.
            Err(why @ WorkspaceError::Unreachable { .. }) => {
                tracing::warn!(%why, "the refs of an ended attempt stay on the server");
                Ok(())
            }
            ended => ended,
        }
    }

    fn close(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        self.local.close(worker)?;
        self.share_rescues();
        Ok(())
    }
}
