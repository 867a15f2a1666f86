//! A worker takes the next task.

use super::{Change, Refusal, Reply, Row, upkeep};
use crate::{
    CommitId, Epoch, TaskId, Timestamp, TreeId, WorkerId,
    fact::Fact,
    lease,
    ledger::Ledger,
    task::{ActiveClaim, FailureCause, Task, TaskState, Via},
};

/// A worker that already holds a task is given that one again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who asks.
    pub worker: WorkerId,
    /// Who will validate, commit and roll back.
    pub via: Via,
    /// Tasks of this role or of none; without one, any.
    pub role: Option<String>,
    /// Only this one, and only if it is the next: for a caller who had to prepare for the task
    /// before the claim.
    pub only: Option<TaskId>,
    /// The lease of a session's claim; a client's is the task's own.
    pub lease_seconds: u64,
    /// Recorded for the rollback.
    pub place: Place,
}

/// Where the work starts from. Empty where there is no git.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// HEAD at the claim: where a rollback goes.
    pub base: Option<CommitId>,
    /// The untracked files that were there before.
    pub base_untracked: Option<TreeId>,
    /// Canonical top level of the work tree.
    pub worktree: Option<String>,
    /// What HEAD names; `None` when detached.
    pub branch: Option<String>,
}

/// A task and the right to work on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// As it is now, claimed.
    pub task: Task,
    /// Which claim this is: what [`Holder`](super::Holder) has to name.
    pub epoch: Epoch,
    /// It was this worker's already.
    pub is_retry: bool,
    /// Its last holder let the lease run out.
    pub is_reclaim: bool,
}

impl Claim {
    /// The next task of any role, for a worker that does its own git work. The lease is the task's.
    pub fn new(worker: WorkerId) -> Self {
        Self {
            worker,
            via: Via::Client,
            role: None,
            only: None,
            lease_seconds: crate::lease::CLIENT_LEASE_SECONDS,
            place: Place::default(),
        }
    }

    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        if let Some(task) = ledger.selection().dangling().first().and_then(|id| ledger.task(id)) {
            let missing = task.depends_on.iter().find(|d| !ledger.contains(d));
            let dependency = missing.unwrap_or(&task.id).clone();
            return Err(Refusal::MissingDependency { dependency, task: task.id.clone() });
        }
        if let Some(mine) = ledger.selection().held_by(&self.worker).next() {
            return self.again(ledger, mine, now);
        }
        let upkeep = upkeep::upkeep(ledger, now);
        let next = ledger.selection().next(self.role.as_deref());
        if upkeep.is_empty() {
            return self.take(ledger, next, now);
        }
        // Rare: something expired or can never run. What is next depends on that; but a caller who
        // prepared for the task that was next without it still may have it, or it would be refused
        // again and again. Upkeep never makes a task ineligible whose dependencies are completed.
        let mut kept_up = ledger.clone();
        kept_up.put_in(&upkeep);
        let prepared = self.only.is_some() && self.only.as_ref() == next;
        let next = if prepared { next } else { kept_up.selection().next(self.role.as_deref()) };
        let mut change = self.take(&kept_up, next, now)?;
        change.rows.splice(0..0, upkeep.rows);
        change.facts.splice(0..0, upkeep.facts);
        Ok(change)
    }

    /// A client that asks again gets what it has; its lease counts from now, even if it had run
    /// out, since nobody else took the task. A session never asks while it holds one.
    fn again(&self, ledger: &Ledger, id: &TaskId, now: Timestamp) -> Result<Change, Refusal> {
        let holds = || Refusal::HoldsAnother { worker: self.worker.clone(), task: id.clone() };
        let mut task = ledger.task(id).cloned().ok_or_else(holds)?;
        if self.via == Via::Run || self.only.as_ref().is_some_and(|only| only != id) {
            return Err(holds());
        }
        let expires_at = lease::grant(&mut task, self.lease_seconds, now);
        let epoch = task.epoch.unwrap_or_default();
        let claimed = Claimed { task: task.clone(), epoch, is_retry: true, is_reclaim: false };
        let fact = Fact::Renewed { task: task.id.clone(), expires_at };
        Ok(Change::put(task, fact, Reply::Claimed(Box::new(claimed))))
    }

    fn take(
        &self,
        ledger: &Ledger,
        next: Option<&TaskId>,
        now: Timestamp,
    ) -> Result<Change, Refusal> {
        if let Some(only) = &self.only
            && next != Some(only)
        {
            return Err(Refusal::NotNext { task: only.clone() });
        }
        let Some(mut task) = next.and_then(|id| ledger.task(id)).cloned() else {
            return Ok(Change::reply(Reply::NothingToClaim));
        };
        let is_reclaim = task.failure().is_some_and(|f| f.cause == FailureCause::Lease);
        let epoch = ledger.next_epoch();
        task.state = TaskState::Claimed(Box::new(ActiveClaim {
            by: Some(self.worker.clone()),
            at: Some(now),
            lease_expires_at: None,
            via: Some(self.via),
            worktree: self.place.worktree.clone(),
            branch: self.place.branch.clone(),
            base_untracked: self.place.base_untracked.clone(),
            intent: None,
        }));
        task.epoch = Some(epoch);
        task.started_at_commit = self.place.base.clone();
        task.flags.clear();
        lease::grant(&mut task, self.lease_seconds, now);
        if self.via == Via::Run {
            // The rollback that ended the last attempt undid what its checkpoints tell of. A client
            // rolls nothing back: there they still say how far the work came.
            task.checkpoints.clear();
        }
        let mut head = ledger.head().clone();
        head.epoch = epoch;
        let fact = Fact::Claimed {
            task: task.id.clone(),
            title: task.title.clone(),
            worker: self.worker.clone(),
            epoch,
            base: self.place.base.clone(),
        };
        Ok(Change {
            head: Some(head),
            rows: vec![Row::put(task.clone())],
            facts: vec![fact],
            reply: Reply::Claimed(Box::new(Claimed { task, epoch, is_retry: false, is_reclaim })),
        })
    }
}
