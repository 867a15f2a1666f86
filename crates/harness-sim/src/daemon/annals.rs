//! What the clients were promised, and the invariants that follow from it.

use std::collections::{BTreeMap, BTreeSet};

use harness::protocol::{Answer, Refused, Request};
use harness_core::{Epoch, Holder, Ledger, TaskId, Timestamp, WorkerId, task::Status};

use super::{
    floor::State,
    life::{Delivery, Letter},
};
use crate::checkers::Violation;

type Verdict = Result<(), Violation>;

/// The history of one world, from the answers of its daemons.
#[derive(Default)]
pub(super) struct Annals {
    /// The newest claim of each task.
    claims: BTreeMap<TaskId, (Epoch, WorkerId)>,
    /// The ends of leases, while nobody asked to end the claim.
    leases: BTreeMap<TaskId, (WorkerId, Epoch, Timestamp)>,
    completed: BTreeMap<TaskId, Holder>,
    failed: BTreeSet<(TaskId, Epoch)>,
    checkpoints: Vec<(TaskId, Epoch, String)>,
}

/// Returns the holder that a request names.
fn holder(request: &Request) -> Option<&Holder> {
    match request {
        Request::TaskCheckpoint(of) => Some(&of.holder),
        Request::TaskRenew(of) => Some(&of.holder),
        Request::TaskComplete(of) => Some(&of.holder),
        Request::TaskFail(of) => Some(&of.holder),
        _ => None,
    }
}

impl Annals {
    /// Records that a request is on its way. From here on it may take effect.
    pub(super) fn sent(&mut self, letter: &Letter) {
        match &letter.request {
            Request::TaskComplete(of) => _ = self.leases.remove(&of.holder.task),
            Request::TaskFail(of) => _ = self.leases.remove(&of.holder.task),
            Request::TaskRelease(of) => _ = self.leases.remove(&of.task_id),
            _ => {}
        }
    }

    /// Judges answers to requests that were sent at the same time, and records them.
    pub(super) fn answered(
        &mut self,
        state: &State,
        ledger: &Ledger,
        all: &[(&Letter, &Delivery)],
    ) -> Verdict {
        for (letter, heard) in all {
            if let Some(Ok(answer)) = heard {
                self.judge(state, ledger, &letter.request, answer)?;
            }
        }
        for (letter, heard) in all {
            if let Some(Ok(answer)) = heard {
                self.record(&letter.request, answer);
            }
        }
        // One of them may have ended a claim after another one extended it.
        all.iter().for_each(|(letter, _)| self.sent(letter));
        Ok(())
    }

    fn judge(&self, state: &State, ledger: &Ledger, request: &Request, answer: &Answer) -> Verdict {
        if let Answer::Claimed(Some(claimed)) = answer {
            let epoch = claimed.task.epoch().unwrap_or_default();
            return self.judge_claim(state, ledger, request, &claimed.task.id, epoch);
        }
        let Some(holder) = holder(request) else { return Ok(()) };
        let epoch = holder.epoch.unwrap_or_default();
        if let Some(by) = self.completed.get(&holder.task).filter(|by| *by != holder) {
            let what = format!("{} was completed by {by:?}: {request:?} → {answer:?}", holder.task);
            return Violation::of("a_task_is_completed_once", what);
        }
        if let Some((newest, by)) = self.claims.get(&holder.task).filter(|(n, _)| *n > epoch) {
            let what = format!("{by} has epoch {newest:?}: {request:?} → {answer:?}");
            return Violation::of("an_old_claim_is_refused", what);
        }
        if matches!(answer, Answer::Completed(_)) {
            let claim = (holder.task.clone(), epoch);
            if !state.passed.contains(&claim) {
                let what = format!("no check of {claim:?} passed");
                return Violation::of("completed_means_checked", what);
            }
            if !state.receipts.contains(&claim) {
                return Violation::of("a_receipt_comes_first", format!("{claim:?} has none"));
            }
        }
        Ok(())
    }

    fn judge_claim(
        &self,
        state: &State,
        ledger: &Ledger,
        request: &Request,
        task: &TaskId,
        epoch: Epoch,
    ) -> Verdict {
        let Request::TaskClaim(claim) = request else { return Ok(()) };
        if self.completed.contains_key(task) {
            let what = format!("{task} is completed, and {} may work on it", claim.worker_id);
            return Violation::of("a_task_is_completed_once", what);
        }
        let again = (epoch, claim.worker_id.clone());
        let last = self.claims.get(task).filter(|last| **last != again);
        if let Some((last, by)) = last.filter(|(last, _)| *last >= epoch) {
            let what = format!("{by} has {task} with {last:?}, {again:?} follows");
            return Violation::of("epochs_grow", what);
        }
        let now = harness::clock::Clock::now(&*state.clock);
        let lease = self.leases.get(task).filter(|(by, ..)| *by != claim.worker_id);
        if let Some((by, _, until)) = lease.filter(|(_, _, until)| *until > now) {
            let what = format!("{by} has {task} until {until}; {} got it", claim.worker_id);
            return Violation::of("a_claim_is_for_one", what);
        }
        let phase = ledger.task(task).and_then(|task| ledger.selection().phase_before(task));
        let phases = ledger.head().phases.iter();
        let gates = phases
            .take_while(|of| ledger.task(task).and_then(|t| t.phase.as_ref()) != Some(&of.name));
        for gate in gates.filter_map(|phase| phase.gate.as_ref()) {
            if phase.is_some() || !state.gates.contains(&gate.command) {
                let what = format!("{task} was given out, and {:?} did not pass", gate.command);
                return Violation::of("a_gate_comes_first", what);
            }
        }
        Ok(())
    }

    fn record(&mut self, request: &Request, answer: &Answer) {
        if let (Request::TaskClaim(by), Answer::Claimed(Some(claimed))) = (request, answer) {
            let (task, epoch) = (&claimed.task.id, claimed.task.epoch().unwrap_or_default());
            let newest = self.claims.get(task).is_none_or(|(newest, _)| *newest <= epoch);
            if newest {
                self.claims.insert(task.clone(), (epoch, by.worker_id.clone()));
            }
            if let Some(until) = claimed.task.lease_expires_at().filter(|_| newest) {
                self.leases.insert(task.clone(), (by.worker_id.clone(), epoch, until));
            }
        }
        let Some(holder) = holder(request) else { return };
        let (task, epoch) = (holder.task.clone(), holder.epoch.unwrap_or_default());
        match (request, answer) {
            (_, Answer::Completed(_)) => _ = self.completed.insert(task, holder.clone()),
            (_, Answer::Failed(_)) => _ = self.failed.insert((task, epoch)),
            (_, Answer::Lease(lease)) => {
                let lease = (holder.worker.clone(), epoch, lease.lease_expires_at);
                if let Some(last) = self.leases.get_mut(&task) {
                    *last = lease;
                }
                if let Request::TaskCheckpoint(of) = request {
                    self.checkpoints.push((task, epoch, of.description.clone()));
                }
            }
            _ => {}
        }
    }

    /// Checks that nothing that was acknowledged is lost.
    pub(super) fn kept(&self, ledger: &Ledger) -> Verdict {
        let lost = |what: String| Violation::of("acknowledged_is_kept", what);
        for (task, (epoch, by)) in &self.claims {
            if ledger.task(task).is_none_or(|task| task.epoch < Some(*epoch)) {
                return lost(format!("{by} claimed {task} with {epoch:?}"));
            }
        }
        let of = |task: &TaskId| ledger.task(task).filter(|t| t.status() == Status::InProgress);
        for (task, (by, epoch, until)) in &self.leases {
            let short = of(task).filter(|task| task.epoch == Some(*epoch));
            if short.is_some_and(|task| task.lease_expires_at() < Some(*until)) {
                return lost(format!("{by} has {task} until {until}"));
            }
        }
        for (task, by) in &self.completed {
            if ledger.task(task).is_none_or(|task| task.status() != Status::Completed) {
                return lost(format!("{by:?} completed {task}"));
            }
        }
        for (task, epoch) in &self.failed {
            let counted = self.failed.iter().filter(|(of, _)| of == task).count();
            let row = ledger.task(task);
            if of(task).is_some_and(|task| task.epoch == Some(*epoch))
                || row.is_none_or(|row| (row.attempts as usize) < counted)
            {
                return lost(format!("{task} failed with {epoch:?}"));
            }
        }
        for (task, epoch, text) in &self.checkpoints {
            let row = of(task).filter(|task| task.epoch == Some(*epoch));
            if row.is_some_and(|row| row.checkpoints.iter().all(|c| c.description != *text)) {
                return lost(format!("{text:?} of {task}"));
            }
        }
        Ok(())
    }
}

/// Checks the answer to a request that was repeated because its first answer got lost. A check runs
/// again and a failure is over, so only promises are compared.
pub(super) fn repeated(
    request: &Request,
    first: &Result<Answer, Refused>,
    second: &Result<Answer, Refused>,
) -> Verdict {
    let claim = |answer: &Answer| match answer {
        Answer::Claimed(claimed) => {
            claimed.as_ref().map(|of| (of.task.id.clone(), of.task.epoch()))
        }
        _ => None,
    };
    let same = match (request, first, second) {
        (Request::TaskClaim(_), Ok(first), _) if claim(first).is_none() => true,
        (Request::TaskClaim(_), Ok(first), Ok(second)) => claim(first) == claim(second),
        (Request::TaskComplete(_), Ok(first), Ok(second)) => first == second,
        (Request::TaskRenew(_) | Request::TaskCheckpoint(_), Ok(_), second) => second.is_ok(),
        (Request::TaskClaim(_) | Request::TaskComplete(_), Ok(_), Err(_)) => false,
        _ => true,
    };
    match same {
        true => Ok(()),
        false => {
            let what = format!("{request:?}: {first:?}, then {second:?}");
            Violation::of("a_repeated_request_has_the_same_answer", what)
        }
    }
}
