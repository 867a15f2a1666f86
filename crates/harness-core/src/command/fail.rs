//! Fails an attempt. Only this command counts a failed attempt.

use serde::{Deserialize, Serialize};

use super::{Change, Holder, Refusal, Reply, Row, landing};
use crate::{
    Category, CommitId, Timestamp,
    fact::Fact,
    ledger::Ledger,
    task::{ENTRY_BYTES, ErrorEntry, Intent},
};

/// Ends the attempt with a failure, after the git work. A failure that is sent twice is stored once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fail {
    /// The holder whose claim it ends.
    pub holder: Holder,
    /// The category of the failure.
    pub category: Category,
    /// A text for the error log and the next attempt.
    pub message: String,
    /// The number of attempts that it uses up.
    pub attempts: Attempts,
    /// The commit that a rollback reset the work tree to.
    pub rolled_back_to: Option<CommitId>,
}

/// The number of attempts that a failure uses up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attempts {
    /// None is used up, because the task lost to a conflict in a file that it had reserved.
    None,
    /// One attempt is used up.
    One,
    /// All attempts are used up, because no further one can help, e.g. if the base commit is gone.
    All,
}

impl Fail {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        if let Some(reply) = self.stored(ledger) {
            return Ok(Change::reply(reply));
        }
        let mut task = self.holder.claimed(ledger)?.clone();
        // The cause is the recorded intent, not a problem that came up while it was carried out.
        let (category, message) = match task.intent().cloned() {
            Some(Intent::Rollback { category, message }) => (category, message),
            Some(Intent::Land { .. }) | None => (self.category, self.message.clone()),
        };
        task.fail(now, ErrorEntry::new(Some(category), message.as_str()));
        match self.attempts {
            Attempts::None => {}
            Attempts::One => task.count_attempt(),
            Attempts::All => {
                task.count_attempt();
                task.attempts = task.attempts.max(task.max_attempts);
            }
        }
        let id = task.id.clone();
        let retryable = task.retryable();
        let mut facts =
            vec![Fact::Failed { task: id.clone(), category, message, retryable: Some(retryable) }];
        if let Some(commit) = &self.rolled_back_to {
            facts.push(Fact::RolledBack { task: id.clone(), commit: commit.clone() });
        }
        let reply = Reply::Failed { task: id, retryable };
        let head = landing::without(ledger.head(), &task.id);
        Ok(Change { head, rows: vec![Row::put(task)], facts, reply })
    }

    /// Returns the answer to a failure that is stored already: the worker repeats a request whose
    /// answer it has not received. A failed task does not record its worker, so the attempt is
    /// recognised by its epoch, if that is given, and by the error.
    fn stored(&self, ledger: &Ledger) -> Option<Reply> {
        let task = ledger.task(&self.holder.task)?;
        task.failure()?;
        let same_attempt = self.holder.epoch.is_none_or(|epoch| task.epoch == Some(epoch));
        let mut entry = ErrorEntry::new(Some(self.category), self.message.as_str());
        entry.cut(ENTRY_BYTES);
        let same = same_attempt && task.error_log.last() == Some(&entry);
        same.then(|| Reply::Failed { task: task.id.clone(), retryable: task.retryable() })
    }
}
