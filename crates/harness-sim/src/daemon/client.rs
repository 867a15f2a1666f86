//! A client of the daemon: a worker outside of any run.

use std::time::Duration;

use harness::protocol::{
    Answer, Refused, Request, TaskCheckpoint, TaskClaim, TaskComplete, TaskFail, TaskReason,
    TaskRenew,
};
use harness_core::{
    Category, Epoch, Holder, TaskId, WorkerId, command::Authority, machine::judge::ClientWork,
    role::Role,
};

use super::life::{Delivery, Letter};
use crate::random::Random;

pub(super) struct Client {
    id: WorkerId,
    /// The claim that it believes to hold.
    held: Option<(TaskId, Epoch)>,
    /// Earlier claims, which it may insist on.
    old: Vec<(TaskId, Epoch)>,
    /// The request whose answer it did not receive.
    unanswered: Option<Letter>,
}

impl Client {
    pub(super) fn new(number: usize) -> Self {
        let id = WorkerId::recorded(&format!("client-{number}"));
        Self { id, held: None, old: Vec::new(), unanswered: None }
    }

    /// Returns its next request. `number` is different each time.
    pub(super) fn next(&mut self, number: u64, random: &mut Random) -> Letter {
        if let Some(again) = self.unanswered.take().filter(|_| random.percent(75)) {
            return again;
        }
        let old = self.old.last().cloned().filter(|_| random.percent(15));
        let request = match old.or_else(|| self.held.clone()) {
            None => self.claim(random),
            Some((task, epoch)) => {
                let holder = Holder { task, worker: self.id.clone(), epoch: Some(epoch) };
                self.about(holder, number, random)
            }
        };
        let role = match request {
            // A person takes the task back.
            Request::TaskRelease(_) => Role::Operator,
            _ => Role::Worker,
        };
        Letter { request, role }
    }

    fn about(&self, holder: Holder, number: u64, random: &mut Random) -> Request {
        match random.weighted(&[18, 14, 40, 12, 6, 10]) {
            0 => Request::TaskCheckpoint(TaskCheckpoint {
                holder,
                step: 1,
                total: 2,
                description: format!("step #{number}."),
            }),
            1 => Request::TaskRenew(TaskRenew { holder, lease_seconds: None }),
            2 => {
                let commits = random.percent(40);
                let work = if commits { ClientWork::Committed } else { ClientWork::Left };
                Request::TaskComplete(TaskComplete { holder, authority: Authority::Holder, work })
            }
            3 => Request::TaskFail(TaskFail {
                holder,
                category: Category::TaskExec,
                message: format!("it broke #{number}."),
            }),
            4 => {
                let reason = Some(format!("by hand #{number}."));
                Request::TaskRelease(TaskReason { task_id: holder.task, reason })
            }
            _ => self.claim(random),
        }
    }

    fn claim(&self, random: &mut Random) -> Request {
        let claim = TaskClaim::any(self.id.clone());
        let waits = random.percent(25);
        Request::TaskClaim(if waits { claim.wait(Duration::from_secs(5)) } else { claim })
    }

    /// Receives no answer, and may repeat the request.
    pub(super) fn waits_in_vain(&mut self, letter: Letter) {
        self.unanswered = Some(letter);
    }

    pub(super) fn receives(&mut self, letter: Letter, heard: Delivery, random: &mut Random) {
        match heard {
            None => self.waits_in_vain(letter),
            Some(Ok(Answer::Claimed(Some(claimed)))) => {
                let claim = claimed.task.epoch().map(|epoch| (claimed.task.id.clone(), epoch));
                if self.held != claim {
                    self.old.extend(self.held.take());
                }
                self.held = claim;
            }
            Some(Ok(Answer::Completed(_) | Answer::Failed(_))) => self.lets_go(),
            Some(Ok(_)) => {}
            Some(Err(Refused { .. })) if random.percent(40) => self.lets_go(),
            Some(Err(_)) => {}
        }
    }

    fn lets_go(&mut self) {
        self.old.extend(self.held.take());
    }
}
