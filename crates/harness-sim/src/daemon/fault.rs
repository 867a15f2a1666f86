//! Deliberate faults of a daemon, to show that the checkers detect them.

use harness::{
    protocol::Request,
    store::{Applied, Store, StoreError},
};
use harness_core::{
    Command, Epoch, Holder, Ledger, Reply, Timestamp, WorkerId, command::Authority, decide,
    role::Role, task::Status,
};

use super::life::Letter;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DaemonFault {
    #[default]
    None,
    /// A request is answered before its change is durable.
    AnswersFirst,
    /// Every request about a task counts as one of its current holder.
    FencesNobody,
    /// Any worker counts as the one that completed a task and repeats its request.
    AnyoneRepeats,
    /// Every completion is made by force.
    ForcesCompletions,
    /// The result of a check is ignored.
    IgnoresChecks,
    /// The result of a gate is ignored.
    IgnoresGates,
    /// A completion is recorded without its receipt.
    SkipsReceipt,
    /// A worker that repeats its claim counts as another one.
    ForgetsWorkers,
    /// Every claim of a task has the same epoch.
    RepeatsEpochs,
    /// Leases of others count as over when a worker claims.
    HastyLeases,
}

/// A day, which no lease lasts.
const DAY: i64 = 24 * 3600;

impl DaemonFault {
    /// Returns the request as the faulty dispatch understands it. `number` is different each time.
    pub(super) fn misread(self, mut letter: Letter, ledger: &Ledger, number: u64) -> Letter {
        match (self, &mut letter.request) {
            (Self::AnyoneRepeats, Request::TaskComplete(of)) => {
                unfence(&mut of.holder, ledger, Status::Completed);
            }
            (Self::FencesNobody, Request::TaskComplete(of)) => {
                unfence(&mut of.holder, ledger, Status::InProgress);
            }
            (Self::FencesNobody, Request::TaskFail(of)) => {
                unfence(&mut of.holder, ledger, Status::InProgress);
            }
            (Self::FencesNobody, Request::TaskCheckpoint(of)) => {
                unfence(&mut of.holder, ledger, Status::InProgress);
            }
            (Self::FencesNobody, Request::TaskRenew(of)) => {
                unfence(&mut of.holder, ledger, Status::InProgress);
            }
            (Self::ForcesCompletions, Request::TaskComplete(of)) => {
                of.authority = Authority::Force;
                letter.role = Role::Operator;
            }
            (Self::ForgetsWorkers, Request::TaskClaim(claim)) => {
                claim.worker_id = WorkerId::recorded(&format!("{}-{number}", claim.worker_id));
            }
            _ => {}
        }
        letter
    }
}

/// Replaces the holder by the current one, if the task has this status.
fn unfence(holder: &mut Holder, ledger: &Ledger, status: Status) {
    let task = ledger.task(&holder.task).filter(|task| task.status() == status);
    if let Some((task, worker)) = task.and_then(|task| Some((task, task.claimed_by()?))) {
        (holder.worker, holder.epoch) = (worker.clone(), task.epoch);
    }
}

/// A store, possibly with one fault.
pub(super) struct FaultyStore<S> {
    pub(super) store: S,
    pub(super) fault: DaemonFault,
}

impl<S: Store> Store for FaultyStore<S> {
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        match self.fault {
            DaemonFault::AnswersFirst => {
                let decided = self.store.ledger().ok().cloned();
                match (self.store.apply(now, commands), decided) {
                    (Err(_), Some(ledger)) => Ok(as_decided(ledger, now, commands)),
                    (result, _) => result,
                }
            }
            DaemonFault::HastyLeases if matches!(commands, [Command::Claim(_)]) => {
                self.store.apply(Timestamp::from_seconds(now.seconds() + DAY), commands)
            }
            DaemonFault::RepeatsEpochs => {
                let mut applied = self.store.apply(now, commands)?;
                for reply in applied.replies.iter_mut().flatten() {
                    if let Reply::Claimed(claimed) = reply {
                        claimed.task.epoch = Some(Epoch(1));
                    }
                }
                Ok(applied)
            }
            _ => self.store.apply(now, commands),
        }
    }

    fn ledger(&mut self) -> Result<&Ledger, StoreError> {
        self.store.ledger()
    }
}

fn as_decided(mut ledger: Ledger, now: Timestamp, commands: &[Command]) -> Applied {
    let decide = |command| {
        let change = decide(&ledger, now, command)?;
        ledger.put_in(&change);
        Ok(change.reply)
    };
    Applied { replies: commands.iter().map(decide).collect(), ..Applied::default() }
}
