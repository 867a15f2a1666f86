//! Commands of a ledger on which several workers work: its mode, its target branch, and the claim of a
//! worker that is gone.

use serde::{Deserialize, Serialize};

use super::{
    Change, Claimed, ParallelTerms, Place, Refusal, Reply, Row, find, settle::refuse_unsettled,
};
use crate::{
    Epoch, TaskId, Timestamp, WorkerId,
    fact::Fact,
    head::LANDING_FEATURE,
    lease,
    ledger::{ConcurrencyMode, Head, Ledger},
    task::{Intent, Via},
};

/// Sets the number of sessions that may work at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMode {
    /// The mode.
    pub mode: ConcurrencyMode,
}

/// Sets the branch on which results land. While a claim is open, the branch of that claim stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTarget {
    /// The branch.
    pub branch: String,
    /// The remote that has it; `None` for a branch of this repository.
    pub remote: Option<String>,
}

/// Lets results land on another branch, because the tree of the user must not be touched; or ends that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divert {
    /// The other branch; `None` to land on the target again.
    pub to: Option<String>,
    /// The reason, for the log.
    pub why: String,
}

/// Takes the task of a worker that is gone, under a new epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeOver {
    /// The task.
    pub task: TaskId,
    /// The epoch of the claim that is taken. With another one, another worker was faster.
    pub epoch: Option<Epoch>,
    /// How it is known that the worker is gone.
    pub gone: Gone,
    /// The worker that takes it.
    pub worker: WorkerId,
    /// The lease of its claim.
    pub lease_seconds: u64,
    /// The work tree in which it continues. The base stays.
    pub worktree: Option<String>,
}

/// How it is known that a worker is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gone {
    /// Its lease ran out.
    LeaseRanOut,
    /// The lock of its life is free, on this host.
    Dead,
}

impl SetMode {
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let before = ledger.head();
        if before.session_config.concurrency_mode == self.mode {
            return Ok(Change::reply(Reply::Noted));
        }
        let held = ledger.selection().claimed().filter_map(|id| ledger.task(id));
        let mut of_runs = held.filter(|task| task.claimed_via() == Via::Run);
        let mut head = before.clone();
        head.session_config.concurrency_mode = self.mode;
        head.needs.retain(|feature| feature != LANDING_FEATURE);
        match (self.mode, of_runs.next()) {
            (_, Some(task)) => {
                let nobody = || WorkerId::parse("nobody").ok();
                let worker = task.claimed_by().cloned().or_else(nobody);
                let worker = worker.ok_or_else(|| Refusal::NotReady { task: task.id.clone() })?;
                return Err(Refusal::InProgress { task: task.id.clone(), worker });
            }
            (ConcurrencyMode::Concurrent, None) => head.needs.push(LANDING_FEATURE.to_owned()),
            (ConcurrencyMode::Exclusive, None) => {
                head.landing.clear();
                head.session_config.target_branch = None;
                head.session_config.target_remote = None;
                head.session_config.landed_branch = None;
                head.session_config.landed_why = None;
            }
        }
        let name = self.mode.name();
        let message = format!("concurrency_mode is {name} now");
        let facts = vec![Fact::Warned { task: None, message }];
        Ok(Change { head: Some(head), rows: Vec::new(), facts, reply: Reply::Noted })
    }
}

impl SetTarget {
    pub(super) fn decide(&self, ledger: &Ledger) -> Change {
        let before = &ledger.head().session_config;
        let claims = ledger.selection().claimed().filter_map(|id| ledger.task(id));
        let open = claims.filter(|task| task.claimed_via() == Via::Run).count() > 0;
        let set = before.target_branch.is_some();
        let same = before.target_branch.as_deref() == Some(&self.branch)
            && before.target_remote == self.remote;
        // Forgotten results are looked for on the branch that is set.
        let unsettled = ledger.head().unsettled.is_some();
        if same || (set && (open || unsettled || before.landed_branch.is_some())) {
            return Change::reply(Reply::Noted);
        }
        let mut head = ledger.head().clone();
        head.session_config.target_branch = Some(self.branch.clone());
        head.session_config.target_remote.clone_from(&self.remote);
        Change { head: Some(head), rows: Vec::new(), facts: Vec::new(), reply: Reply::Noted }
    }
}

impl Divert {
    pub(super) fn decide(&self, ledger: &Ledger) -> Change {
        let mut head = ledger.head().clone();
        if head.session_config.landed_branch == self.to {
            return Change::reply(Reply::Noted);
        }
        head.session_config.landed_branch.clone_from(&self.to);
        head.session_config.landed_why = self.to.as_ref().map(|_| self.why.clone());
        let target = head.session_config.target_branch.as_deref().unwrap_or_default();
        let message = match &self.to {
            Some(to) => format!("results land on {to} instead of {target}: {}", self.why),
            None => format!("results land on {target} again: {}", self.why),
        };
        let facts = vec![Fact::Warned { task: None, message }];
        Change { head: Some(head), rows: Vec::new(), facts, reply: Reply::Noted }
    }
}

impl TakeOver {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        refuse_unsettled(ledger)?;
        let found = find(ledger, &self.task)?;
        let not_ready = || Refusal::NotReady { task: self.task.clone() };
        let mut task = found.clone();
        let ran_out = task.lease_ran_out(now);
        let held = ledger.selection().held_by(&self.worker).next();
        if let Some(mine) = held.filter(|id| **id != self.task) {
            return Err(Refusal::HoldsAnother { worker: self.worker.clone(), task: mine.clone() });
        }
        let Some(claim) = task.claim_mut() else { return Err(not_ready()) };
        let takes = claim.via.unwrap_or(Via::Run) == Via::Run
            && found.epoch == self.epoch
            && (ran_out || self.gone == Gone::Dead);
        if !takes {
            return Err(not_ready());
        }
        let from = claim.by.replace(self.worker.clone());
        claim.at = Some(now);
        claim.worktree.clone_from(&self.worktree);
        let epoch = ledger.next_epoch();
        claim.branch = Some(attempt_branch(&self.task, epoch));
        let landing = matches!(claim.intent, Some(Intent::Land { .. }));
        task.epoch = Some(epoch);
        lease::grant(&mut task, self.lease_seconds, now);
        let mut head = Head { epoch, ..ledger.head().clone() };
        head.landing.retain(|entry| entry.task != self.task);
        let from = from.map_or_else(|| "nobody".to_owned(), |worker| worker.to_string());
        let why = match self.gone {
            Gone::LeaseRanOut => "the lease ran out",
            Gone::Dead => "the worker is dead",
        };
        let action = if landing { "finish the landing" } else { "take over" };
        let reason = format!("{why} (claimed_by={from})");
        let fact = Fact::Recovered { task: self.task.clone(), action: action.to_owned(), reason };
        let claimed = Claimed { task: task.clone(), epoch, is_retry: false, is_reclaim: true };
        Ok(Change {
            head: Some(head),
            rows: vec![Row::put(task)],
            facts: vec![fact],
            reply: Reply::Claimed(Box::new(claimed)),
        })
    }
}

/// Returns the branch of an attempt in a tree of its own.
pub fn attempt_branch(task: &TaskId, epoch: Epoch) -> String {
    format!("harness/{task}.{epoch}")
}

/// Begins the next session in the change of a claim, if the current one is full.
pub(super) fn count_claim(head: &mut Head, terms: &ParallelTerms) -> Result<(), Refusal> {
    let full = terms.max_tasks > 0 && head.session_claims >= terms.max_tasks.unsigned_abs();
    if full {
        let max_sessions = terms.max_sessions.unwrap_or(head.session_config.max_sessions);
        if max_sessions > 0 && head.session_count >= max_sessions.unsigned_abs() {
            return Err(Refusal::MaxSessions { max_sessions });
        }
        head.session_count = head.session_count.saturating_add(1);
        head.session_claims = 0;
    }
    head.session_claims += 1;
    Ok(())
}

impl Place {
    /// Returns the branch that a claim of `task` records.
    pub(super) fn branch_of(
        &self,
        task: &TaskId,
        epoch: Epoch,
        parallel: Option<&ParallelTerms>,
    ) -> Option<String> {
        match parallel {
            Some(_) => Some(attempt_branch(task, epoch)),
            None => self.branch.clone(),
        }
    }
}
