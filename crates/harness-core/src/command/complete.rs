//! A task is done. The word of an agent is never enough where there is a check.

use super::{Change, Holder, Refusal, Reply, Row, find};
use crate::{
    CommitId, Timestamp,
    fact::Fact,
    ledger::Ledger,
    task::{Intent, Status, Task, TaskCompletion, TaskState},
};

/// Ends the attempt well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complete {
    /// Whose claim it ends.
    pub holder: Holder,
    /// Whether the claim has to be the caller's.
    pub authority: Authority,
    /// Why it counts as done.
    pub proof: Proof,
    /// For a task without a check.
    pub unchecked: Unchecked,
    /// The commit that holds the work.
    pub commit: Option<CommitId>,
}

/// Who may complete a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// Only who holds the claim.
    Holder,
    /// Another's task, or one that nobody claimed.
    Force,
}

/// Why the work counts as good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The check that passed, to the letter: if the task was given another one meanwhile, this
    /// proves nothing.
    Passed {
        /// What was run.
        command: String,
    },
    /// The worker says so.
    Word,
}

/// What the word of a worker is worth for a task that has no check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unchecked {
    /// It is enough; the log has a warning.
    Allowed,
    /// Nothing: the task stays open.
    Forbidden,
}

impl Complete {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let task = find(ledger, &self.holder.task)?;
        if self.already_recorded(task) {
            return Ok(Change::reply(Reply::Task(task.id.clone())));
        }
        let forced = match (self.holder.claimed(ledger), self.authority) {
            (Ok(_), _) => false,
            (Err(_), Authority::Force) => true,
            (Err(refusal), Authority::Holder) => return Err(refusal),
        };
        // Landing is how its holder completes it; for anybody else git is in the middle of something.
        match task.intent() {
            None => {}
            Some(Intent::Land { .. }) if !forced => {}
            Some(Intent::Land { .. } | Intent::Rollback { .. }) => {
                return Err(Refusal::Undecided { task: task.id.clone() });
            }
        }
        let mut facts = Vec::new();
        match (&self.proof, task.check(), self.unchecked) {
            (Proof::Passed { command }, Some(check), _) if command == check => {}
            (Proof::Passed { .. }, _, _) => {
                return Err(Refusal::CheckChanged { task: task.id.clone() });
            }
            (Proof::Word, Some(_), _) => return Err(Refusal::Unchecked { task: task.id.clone() }),
            (Proof::Word, None, Unchecked::Forbidden) => {
                return Err(Refusal::NoCheck { task: task.id.clone() });
            }
            (Proof::Word, None, Unchecked::Allowed) => facts.push(Fact::Warned {
                task: Some(task.id.clone()),
                message: format!(
                    "no validation.command; completed on the word of {}",
                    self.holder.worker
                ),
            }),
        }
        if forced {
            let held_by = task.claim().and_then(|claim| claim.by.as_ref());
            let held_by = held_by.map_or_else(|| "nobody".to_owned(), ToString::to_string);
            let by = &self.holder.worker;
            facts.push(Fact::Warned {
                task: Some(task.id.clone()),
                message: format!("completed by force by {by} (claimed by {held_by})"),
            });
        }
        Ok(self.record(ledger, task, forced, now, facts))
    }

    /// Said again by the same worker, whose first answer may have got lost.
    fn already_recorded(&self, task: &Task) -> bool {
        task.status() == Status::Completed
            && (self.authority == Authority::Force
                || task.claimed_by() == Some(&self.holder.worker)
                    && self.holder.epoch.is_none_or(|e| task.epoch == Some(e)))
    }

    fn record(
        &self,
        ledger: &Ledger,
        task: &Task,
        forced: bool,
        now: Timestamp,
        mut facts: Vec<Fact>,
    ) -> Change {
        let mut done = task.clone();
        let mut head = None;
        let (mut by, mut claimed_at) = (task.claimed_by().cloned(), task.claimed_at());
        if forced {
            // A new epoch, so that a holder who did not hear of it is fenced off.
            let epoch = ledger.next_epoch();
            head = Some(crate::ledger::Head { epoch, ..ledger.head().clone() });
            done.epoch = Some(epoch);
            (by, claimed_at) = (Some(self.holder.worker.clone()), Some(now));
        }
        done.state = TaskState::Completed(TaskCompletion { by, claimed_at, at: Some(now) });
        done.count_attempt();
        facts.push(Fact::Completed {
            task: done.id.clone(),
            worker: self.holder.worker.clone(),
            commit: self.commit.clone(),
        });
        let reply = Reply::Task(done.id.clone());
        Change { head, rows: vec![Row::put(done)], facts, reply }
    }
}
