//! Completes a task. If the task has a check, the word of an agent is never enough.

use serde::{Deserialize, Serialize};

use super::{Change, Holder, Refusal, Reply, Row, find, landing};
use crate::{
    CommitId, Timestamp,
    fact::Fact,
    ledger::Ledger,
    task::{Intent, Status, Task, TaskCompletion, TaskState},
};

/// Ends the attempt with a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    /// The holder whose claim it ends.
    pub holder: Holder,
    /// The required relation of the caller to the claim.
    pub authority: Authority,
    /// The evidence that the work is done.
    pub proof: Proof,
    /// The rule for a task without a check.
    pub unchecked: Unchecked,
    /// The commit that holds the work.
    pub commit: Option<CommitId>,
}

/// The permission to complete a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Authority {
    /// Only the holder of the claim may complete the task.
    Holder,
    /// The task of another worker, or an unclaimed one, may be completed.
    Force,
}

/// The evidence that the work is good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// The check passed. The command must equal the check of the task exactly: if the task got
    /// another check meanwhile, this proves nothing.
    Passed {
        /// The command that was run.
        command: String,
    },
    /// The worker reports it without a check.
    Word,
}

/// The rule for a worker's report on a task without a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unchecked {
    /// The report is enough. The log gets a warning.
    Allowed,
    /// The report is not enough, and the task stays open.
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
        // The holder completes a task by landing it. For any other caller, a change to git is
        // unfinished.
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

    /// Returns whether the same worker repeated the command because its first answer got lost.
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
        let mut head = landing::without(ledger.head(), &task.id);
        done.conflicts.clear();
        let (mut by, mut claimed_at) = (task.claimed_by().cloned(), task.claimed_at());
        if forced {
            // A new epoch fences off a holder that does not know of this completion.
            let epoch = ledger.next_epoch();
            let rest = head.unwrap_or_else(|| ledger.head().clone());
            head = Some(crate::ledger::Head { epoch, ..rest });
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
