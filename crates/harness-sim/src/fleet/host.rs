//! A host with its workers: what they ask for next, and what they believe.

use harness::store::{
    Applied, Store as _, StoreError,
    postgres::{DatabaseError, FleetStore},
};
use harness_core::{
    Command, Epoch, Holder, Reply, TaskId, Timestamp, WorkerId,
    command::{Authority, Claim, ClaimChoice, Complete, Place, Proof, Renew, Unchecked},
    database::Remembered,
    task::Via,
};

use super::{
    database::SimDatabase,
    flaw::FleetFlaw,
    rows::{SimRows, add},
};
use crate::random::Random;

/// A lease, which a host that freezes outlives.
pub(super) const LEASE: u64 = 60;
const WORKERS: usize = 2;

pub(super) struct Host {
    pub(super) number: usize,
    pub(super) store: FleetStore<SimRows>,
    /// The difference of its clock.
    skew: i64,
    held: [Option<(TaskId, Epoch)>; WORKERS],
    /// The steps for which it does nothing.
    pub(super) frozen: usize,
}

/// A command with the worker that sent it.
pub(super) struct Sent {
    pub(super) worker: usize,
    pub(super) command: Command,
}

/// The end of a batch.
pub(super) enum Ended {
    Done(Applied),
    /// Nothing took effect.
    Failed,
    /// It may have taken effect.
    Unknown,
}

impl Host {
    pub(super) fn new(
        number: usize,
        database: &SimDatabase,
        last: Option<Remembered>,
    ) -> Option<Self> {
        let (rows, mut server) = (SimRows::new(database, number)?, database.server());
        let skew = server.random.below(7200) as i64 - 3600;
        let mut store = FleetStore::over(rows).recalling(last);
        if server.flaw == FleetFlaw::TrustsOwnClock {
            store = store.timed_by_caller();
        }
        Some(Self { number, store, skew, held: [None, None], frozen: 0 })
    }

    pub(super) fn worker(&self, worker: usize) -> WorkerId {
        WorkerId::recorded(&format!("host-{}-{worker}", self.number))
    }

    /// Returns the next batch. `number` is different each time.
    pub(super) fn batch(&self, random: &mut Random, number: &mut u64) -> Vec<Sent> {
        let count = 1 + random.below(WORKERS);
        let first = random.below(WORKERS);
        let workers = (0..count).map(|n| (first + n) % WORKERS);
        let next = |worker: usize| {
            *number += 1;
            let command = match &self.held[worker] {
                Some(held) => self.go_on(worker, held, random, *number),
                None if random.percent(78) => self.claim(worker),
                None => add(&format!("task {number}")),
            };
            Sent { worker, command }
        };
        workers.map(next).collect()
    }

    fn claim(&self, worker: usize) -> Command {
        Command::Claim(Claim {
            worker: self.worker(worker),
            via: Via::Client,
            role: None,
            labels: Vec::new(),
            choice: ClaimChoice::Next,
            lease_seconds: LEASE,
            place: Place::default(),
            parallel: None,
        })
    }

    fn go_on(
        &self,
        worker: usize,
        (task, epoch): &(TaskId, Epoch),
        random: &mut Random,
        number: u64,
    ) -> Command {
        let (task, epoch) = (task.clone(), Some(*epoch));
        let holder = Holder { task, worker: self.worker(worker), epoch };
        match random.below(100) {
            0..55 => {
                Command::Renew(Renew { holder, lease_seconds: LEASE, client_lease_seconds: LEASE })
            }
            55..85 => Command::Complete(Complete {
                holder,
                authority: Authority::Holder,
                proof: Proof::Word,
                unchecked: Unchecked::Allowed,
                commit: None,
            }),
            _ => add(&format!("task {number}")),
        }
    }

    /// Sends a batch.
    pub(super) fn send(&mut self, now: i64, batch: &[Sent]) -> Ended {
        let commands: Vec<Command> = batch.iter().map(|sent| sent.command.clone()).collect();
        match self.store.apply(Timestamp::from_seconds(now + self.skew), &commands) {
            Ok(applied) => Ended::Done(applied),
            Err(StoreError::Database(error)) if is_in_doubt(&error) => Ended::Unknown,
            Err(_) => Ended::Failed,
        }
    }

    /// Takes over what the answers mean for the workers.
    pub(super) fn believe(&mut self, batch: &[Sent], ended: &Ended) {
        let Ended::Done(applied) = ended else {
            // A worker that does not know asks again for what it holds.
            batch.iter().for_each(|sent| self.held[sent.worker] = None);
            return;
        };
        for (Sent { worker, command }, reply) in batch.iter().zip(&applied.replies) {
            match (command, reply) {
                (Command::Claim(_), Ok(Reply::Claimed(claimed))) => {
                    self.held[*worker] = Some((claimed.task.id.clone(), claimed.epoch));
                }
                (Command::Complete(_), _) | (Command::Renew(_), Err(_)) => {
                    self.held[*worker] = None;
                }
                _ => {}
            }
        }
    }
}

fn is_in_doubt(error: &DatabaseError) -> bool {
    matches!(error, DatabaseError::OutcomeUnknown { .. })
}
