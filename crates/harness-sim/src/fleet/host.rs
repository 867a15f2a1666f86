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
    runner::Runner,
    target::Target,
};
use crate::random::Random;

/// A lease, which a host that freezes outlives.
pub(super) const LEASE: u64 = 60;
/// The number of clients of a host. It also has one worker of a run, which is the last one.
const CLIENTS: usize = 2;
const RUNNER: usize = CLIENTS;

pub(super) struct Host {
    pub(super) number: usize,
    pub(super) store: FleetStore<SimRows>,
    /// The difference of its clock.
    skew: i64,
    held: [Option<(TaskId, Epoch)>; CLIENTS],
    runner: Runner,
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
        let runner = Runner::new(worker(number, RUNNER));
        Some(Self { number, store, skew, held: [None, None], runner, frozen: 0 })
    }

    pub(super) fn worker(&self, of: usize) -> WorkerId {
        worker(self.number, of)
    }

    /// Returns the next batch. `now` is the time of the database, and `number` is different each time.
    pub(super) fn batch(
        &mut self,
        now: Timestamp,
        target: &mut Target,
        random: &mut Random,
        number: &mut u64,
    ) -> Vec<Sent> {
        let runs = random.percent(85).then(|| self.run_on(now, target, random)).flatten();
        let count = if runs.is_some() { 0 } else { 1 } + random.below(CLIENTS);
        let first = random.below(CLIENTS);
        let workers = (0..count).map(|n| (first + n) % CLIENTS);
        let next = |worker: usize| {
            *number += 1;
            let command = match &self.held[worker] {
                Some(held) => self.go_on(worker, held, random, *number),
                None if random.percent(78) => self.claim(worker),
                None => add(&format!("task {number}")),
            };
            Sent { worker, command }
        };
        let clients: Vec<Sent> = workers.map(next).collect();
        clients.into_iter().chain(runs).collect()
    }

    /// Lets the worker of the run go on. Returns its next command.
    fn run_on(&mut self, now: Timestamp, target: &mut Target, random: &mut Random) -> Option<Sent> {
        let ledger = self.store.ledger().ok().cloned();
        let command = self.runner.next(ledger.as_ref(), now, target, random)?;
        Some(Sent { worker: RUNNER, command })
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
    pub(super) fn believe(&mut self, batch: &[Sent], ended: &Ended, target: &mut Target) {
        let replies = match ended {
            Ended::Done(applied) => Some(&applied.replies),
            Ended::Failed | Ended::Unknown => None,
        };
        for (n, Sent { worker, command }) in batch.iter().enumerate() {
            let reply = replies.and_then(|replies| replies.get(n));
            if *worker == RUNNER {
                self.runner.believe(command, reply, target);
                continue;
            }
            let Some(reply) = reply else {
                // A client that does not know asks again for what it holds.
                self.held[*worker] = None;
                continue;
            };
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

fn worker(host: usize, of: usize) -> WorkerId {
    WorkerId::recorded(&format!("host-{host}-{of}"))
}

fn is_in_doubt(error: &DatabaseError) -> bool {
    matches!(error, DatabaseError::OutcomeUnknown { .. })
}
