//! A worker of a run: it claims a task, lands the result and completes the task. It takes over the tasks
//! of others whose lease ran out, and settles what a database has forgotten.
//!
//! The steps are those of the machines `Worker` and `Land`. Anything may happen between two of them.

use harness_core::{
    Command, CommitId, Epoch, Holder, Ledger, Refusal, Reply, Task, TaskId, Timestamp, WorkerId,
    command::{
        Authority, Claim, ClaimChoice, Claimed, Complete, Gone, Intend, ParallelTerms, Place,
        Proof, Renew, Settle, TakeOver, Unchecked, VoidIntent,
    },
    task::{Intent, Via},
};

use super::{
    host::LEASE,
    target::{TARGET, Target},
};
use crate::random::Random;

#[derive(Debug, Clone)]
enum Stage {
    /// It holds nothing.
    Idle,
    Working,
    /// The token is set.
    Marked(CommitId),
    Intended(CommitId),
    Landed(CommitId),
    /// A dead worker intended to land something, and had not.
    Voiding,
}

#[derive(Debug, Clone)]
struct Held {
    task: TaskId,
    title: String,
    epoch: Epoch,
}

#[derive(Debug)]
pub(super) struct Runner {
    id: WorkerId,
    held: Option<Held>,
    stage: Stage,
    /// `true` after it was refused because it is not settled what a database has forgotten.
    unsettled: bool,
    /// The results that it has found for that.
    settle: Option<Settle>,
}

impl Runner {
    pub(super) fn new(id: WorkerId) -> Self {
        Self { id, held: None, stage: Stage::Idle, unsettled: false, settle: None }
    }

    /// Performs what comes before the next command, and returns that command. `ledger` is what its host
    /// sees; without one there is nothing to take over or to settle.
    pub(super) fn next(
        &mut self,
        ledger: Option<&Ledger>,
        now: Timestamp,
        target: &mut Target,
        random: &mut Random,
    ) -> Option<Command> {
        if let Some(settle) = self.settle.take() {
            return Some(Command::Settle(settle));
        }
        if let Some(ledger) = ledger.filter(|_| std::mem::take(&mut self.unsettled))
            && let Some(of) = ledger.head().unsettled
        {
            let found = target.results(&Settle::known_landings(ledger));
            let (worker, landed) = (self.id.clone(), Settle::news(ledger, found));
            self.settle = Some(Settle { of, worker, landed, unproven: Vec::new() });
            return None;
        }
        if let Some(held) = self.held.clone() {
            return self.go_on(&held, target, random);
        }
        let Some(ledger) = ledger else { return Some(self.claim()) };
        let ran_out = |task: &&Task| task.claimed_via() == Via::Run && task.lease_ran_out(now);
        Some(match ledger.tasks().find(ran_out) {
            Some(task) => Command::TakeOver(TakeOver {
                task: task.id.clone(),
                epoch: task.epoch,
                gone: Gone::LeaseRanOut,
                worker: self.id.clone(),
                lease_seconds: LEASE,
                worktree: None,
            }),
            None => self.claim(),
        })
    }

    fn claim(&self) -> Command {
        let parallel = ParallelTerms { max_tasks: 0, max_sessions: None, landed: None };
        Command::Claim(Claim {
            worker: self.id.clone(),
            via: Via::Run,
            role: None,
            labels: Vec::new(),
            choice: ClaimChoice::Next,
            lease_seconds: LEASE,
            place: Place::default(),
            parallel: Some(parallel),
        })
    }

    fn go_on(
        &mut self,
        Held { task, title, epoch }: &Held,
        target: &mut Target,
        random: &mut Random,
    ) -> Option<Command> {
        let (worker, epoch) = (self.id.clone(), *epoch);
        let holder = Holder { task: task.clone(), worker, epoch: Some(epoch) };
        match self.stage.clone() {
            Stage::Working if random.percent(40) => {
                let (lease_seconds, client_lease_seconds) = (LEASE, LEASE);
                Some(Command::Renew(Renew { holder, lease_seconds, client_lease_seconds }))
            }
            Stage::Working => {
                let to = target.commit()?;
                target.set_token(task, &to);
                self.stage = Stage::Marked(to);
                None
            }
            Stage::Marked(to) => {
                let (from, branch) = (to.clone(), TARGET.to_owned());
                let intent = Intent::Land { target: branch, from, to };
                Some(Command::Intend(Intend { holder, intent, check: None, files: Vec::new() }))
            }
            // A push may take its time.
            Stage::Intended(_) if random.percent(60) => None,
            Stage::Intended(to) => {
                match target.swap(task, title, epoch, &to) {
                    true => self.stage = Stage::Landed(to),
                    false => self.let_go(),
                }
                None
            }
            Stage::Landed(to) => Some(Command::Complete(Complete {
                holder,
                authority: Authority::Holder,
                proof: Proof::Word,
                unchecked: Unchecked::Allowed,
                commit: Some(to),
            })),
            Stage::Voiding => Some(Command::VoidIntent(VoidIntent { holder })),
            Stage::Idle => None,
        }
    }

    fn let_go(&mut self) {
        (self.held, self.stage) = (None, Stage::Idle);
    }

    /// Takes over what an answer means. Without one, it lets go of what it holds: its lease runs out.
    pub(super) fn believe(
        &mut self,
        command: &Command,
        reply: Option<&Result<Reply, Refusal>>,
        target: &mut Target,
    ) {
        if let Some(Err(Refusal::Unsettled)) = reply {
            self.unsettled = true;
        }
        match (command, reply) {
            (Command::Claim(_) | Command::TakeOver(_), Some(Ok(Reply::Claimed(claimed)))) => {
                self.took(claimed, target);
            }
            (Command::Intend(_), Some(reply)) => self.intended(reply, target),
            (Command::VoidIntent(_), Some(Ok(_))) => self.stage = Stage::Working,
            (Command::Renew(_), Some(Ok(_))) | (Command::Settle(_), _) => {}
            _ => self.let_go(),
        }
    }

    /// Resolves a landing that the last holder intended.
    fn took(&mut self, claimed: &Claimed, target: &mut Target) {
        let Task { id, title, .. } = claimed.task.clone();
        self.held = Some(Held { task: id, title, epoch: claimed.epoch });
        self.stage = match claimed.task.intent() {
            Some(Intent::Land { to, .. }) => {
                target.void_token(&claimed.task.id, to);
                match target.contains(to) {
                    true => Stage::Landed(to.clone()),
                    false => Stage::Voiding,
                }
            }
            Some(Intent::Rollback { .. }) | None => Stage::Working,
        };
    }

    fn intended(&mut self, reply: &Result<Reply, Refusal>, target: &mut Target) {
        let (Some(Held { task, .. }), Stage::Marked(to)) = (self.held.clone(), self.stage.clone())
        else {
            return;
        };
        match reply {
            Ok(_) => self.stage = Stage::Intended(to),
            Err(Refusal::Unsettled) => {
                target.void_token(&task, &to);
                self.stage = Stage::Working;
            }
            Err(_) => {
                target.void_token(&task, &to);
                self.let_go();
            }
        }
    }
}
