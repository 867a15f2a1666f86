//! Claims the next task for a worker.

use serde::{Deserialize, Serialize};

use super::{Change, Refusal, Reply, Row, parallel::count_claim, settle::refuse_unsettled, upkeep};
use crate::{
    CommitId, Epoch, TaskId, Timestamp, TreeId, WorkerId,
    fact::Fact,
    lease,
    ledger::Ledger,
    line,
    select::{Applicant, LabelSet},
    task::{ActiveClaim, FailureCause, Task, TaskState, Via},
};

/// Claims a task. A worker that already holds a task gets the same one again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The worker that asks.
    pub worker: WorkerId,
    /// The party that validates, commits and rolls back.
    pub via: Via,
    /// The role. Tasks of this role and tasks without one are eligible; without a role, all tasks
    /// are.
    pub role: Option<String>,
    /// The labels of the worker. A task that requires others is not eligible.
    pub labels: Vec<String>,
    /// The task that it takes.
    pub choice: ClaimChoice,
    /// The lease of the claim. The claim of a client lasts as long as the time limit of the task, if
    /// that has one.
    pub lease_seconds: u64,
    /// The starting point, recorded for the rollback.
    pub place: Place,
    /// The terms of a worker with a tree of its own, among several.
    pub parallel: Option<ParallelTerms>,
}

/// The terms under which one of several workers claims. Its attempt has a branch of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParallelTerms {
    /// The limit of claims in one session, after which the next session begins; zero or less is no
    /// limit.
    pub max_tasks: i64,
    /// The limit of sessions, which overrides the ledger's own.
    pub max_sessions: Option<i64>,
    /// The number of completed tasks before the base was read, for a task that reserves files. If
    /// others landed since, the base is too old for it.
    pub landed: Option<usize>,
}

/// The task that a claim takes. A caller that names one has prepared for it before the claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimChoice {
    /// The next one.
    Next,
    /// This one, if it is the next one.
    NextIs(TaskId),
    /// This one, if it can be worked on now, whether or not others come first.
    Ready(TaskId),
}

impl ClaimChoice {
    /// The task that is named.
    fn task(&self) -> Option<&TaskId> {
        match self {
            Self::Next => None,
            Self::NextIs(task) | Self::Ready(task) => Some(task),
        }
    }

    /// Refuses another task than the one that is named.
    fn agrees_with(&self, next: Option<&TaskId>) -> Result<(), Refusal> {
        match self {
            Self::NextIs(task) if next != Some(task) => {
                Err(Refusal::NotNext { task: task.clone() })
            }
            Self::Ready(task) if next != Some(task) => {
                Err(Refusal::NotReady { task: task.clone() })
            }
            Self::Next | Self::NextIs(_) | Self::Ready(_) => Ok(()),
        }
    }
}

/// The starting point of the work. It is empty without git.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// HEAD at the claim, the target of a rollback.
    pub base: Option<CommitId>,
    /// The untracked files that existed before.
    pub base_untracked: Option<TreeId>,
    /// The canonical top level of the work tree.
    pub worktree: Option<String>,
    /// The branch that HEAD names; `None` if HEAD is detached.
    pub branch: Option<String>,
}

/// A task and the right to work on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The task after the claim.
    pub task: Task,
    /// The epoch of this claim, which [`Holder`](super::Holder) must name.
    pub epoch: Epoch,
    /// `true` if this worker held the task already.
    pub is_retry: bool,
    /// `true` if the last holder let its lease run out.
    pub is_reclaim: bool,
}

impl Claim {
    /// Claims the next task of any role, for a worker that does its own git work. The lease is the
    /// task's.
    pub fn new(worker: WorkerId) -> Self {
        Self {
            worker,
            via: Via::Client,
            role: None,
            labels: Vec::new(),
            choice: ClaimChoice::Next,
            lease_seconds: crate::lease::CLIENT_LEASE_SECONDS,
            place: Place::default(),
            parallel: None,
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
        if let Some(since) = ledger.head().paused_at {
            return Err(Refusal::Paused { since });
        }
        // Clients land nothing. Where runs do, a client could take what has landed.
        if self.via == Via::Run || ledger.head().session_config.target_branch.is_some() {
            refuse_unsettled(ledger)?;
        }
        let upkeep = upkeep::upkeep(ledger, now);
        let next = self.next(ledger);
        if upkeep.is_empty() {
            return self.take(ledger, next, now);
        }
        // This is rare: a lease expired, or a task can never run. The next task depends on that. A
        // caller that prepared for the task that was next before upkeep still gets it; otherwise it
        // would be refused again and again. Upkeep never makes a task ineligible whose dependencies
        // are completed.
        let mut kept_up = ledger.clone();
        kept_up.put_in(&upkeep);
        let prepared = self.choice.task().is_some() && self.choice.task() == next;
        let next = if prepared { next } else { self.next(&kept_up) };
        let mut change = self.take(&kept_up, next, now)?;
        change.rows.splice(0..0, upkeep.rows);
        change.facts.splice(0..0, upkeep.facts);
        Ok(change)
    }

    fn next<'l>(&self, ledger: &'l Ledger) -> Option<&'l TaskId> {
        let labels = LabelSet::Only(&self.labels);
        let of = Applicant { role: self.role.as_deref(), labels };
        let selection = ledger.selection();
        match (&self.choice, self.via) {
            (ClaimChoice::Ready(task), _) => selection.ready(task, of),
            (ClaimChoice::Next | ClaimChoice::NextIs(_), Via::Client) => selection.next(of),
            (ClaimChoice::Next | ClaimChoice::NextIs(_), Via::Run) => selection.next_of_run(of),
        }
    }

    /// Returns the task that a client already holds. Its lease starts again now, even if it had run
    /// out, because nobody else took the task. A session never asks while it holds a task.
    fn again(&self, ledger: &Ledger, id: &TaskId, now: Timestamp) -> Result<Change, Refusal> {
        let holds = || Refusal::HoldsAnother { worker: self.worker.clone(), task: id.clone() };
        let mut task = ledger.task(id).cloned().ok_or_else(holds)?;
        if self.via == Via::Run || self.choice.task().is_some_and(|chosen| chosen != id) {
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
        self.choice.agrees_with(next)?;
        let Some(mut task) = next.and_then(|id| ledger.task(id)).cloned() else {
            return Ok(Change::reply(Reply::NothingToClaim));
        };
        if let Some(parallel) = &self.parallel
            && (line::waits_for_reservation(ledger, &task).is_some()
                || line::landed_for(ledger, &task) != parallel.landed)
        {
            return Err(Refusal::NotReady { task: task.id });
        }
        let is_reclaim = task.failure().is_some_and(|f| f.cause == FailureCause::Lease);
        let epoch = ledger.next_epoch();
        task.state = TaskState::Claimed(Box::new(ActiveClaim {
            by: Some(self.worker.clone()),
            at: Some(now),
            lease_expires_at: None,
            via: Some(self.via),
            worktree: self.place.worktree.clone(),
            branch: self.place.branch_of(&task.id, epoch, self.parallel.as_ref()),
            base_untracked: self.place.base_untracked.clone(),
            intent: None,
        }));
        task.epoch = Some(epoch);
        task.started_at_commit = self.place.base.clone();
        task.flags.clear();
        lease::grant(&mut task, self.lease_seconds, now);
        if self.via == Via::Run {
            // The rollback that ended the last attempt undid the work of its checkpoints. A client
            // rolls nothing back, so there the checkpoints still describe the progress.
            task.checkpoints.clear();
        }
        let mut head = ledger.head().clone();
        head.epoch = epoch;
        if let Some(terms) = &self.parallel {
            count_claim(&mut head, terms)?;
        }
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
