//! An attempt failed. This is the one command that counts it.

use super::{Change, Holder, Refusal, Reply, Row};
use crate::{
    Category, CommitId, Timestamp,
    fact::Fact,
    ledger::Ledger,
    task::{ErrorEntry, Intent},
};

/// Ends the attempt badly, after the git work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fail {
    /// Whose claim it ends.
    pub holder: Holder,
    /// What it counts as.
    pub category: Category,
    /// For the error log and the next attempt.
    pub message: String,
    /// How many it uses up.
    pub attempts: Attempts,
    /// Where the work tree was reset to, by whoever rolled it back.
    pub rolled_back_to: Option<CommitId>,
}

/// How many attempts a failure uses up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempts {
    /// One more is used up.
    One,
    /// No further attempt can help, e.g. its base commit is gone.
    All,
}

impl Fail {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut task = self.holder.claimed(ledger)?.clone();
        // What was intended first is the cause; what came up while it was carried out is not.
        let (category, message) = match task.intent().cloned() {
            Some(Intent::Rollback { category, message }) => (category, message),
            Some(Intent::Land { .. }) | None => (self.category, self.message.clone()),
        };
        task.fail(now, ErrorEntry::new(Some(category), message.as_str()));
        task.count_attempt();
        if self.attempts == Attempts::All {
            task.attempts = task.attempts.max(task.max_attempts);
        }
        let id = task.id.clone();
        let retryable = task.retryable();
        let mut facts =
            vec![Fact::Failed { task: id.clone(), category, message, retryable: Some(retryable) }];
        if let Some(commit) = &self.rolled_back_to {
            facts.push(Fact::RolledBack { task: id.clone(), commit: commit.clone() });
        }
        let reply = Reply::Failed { task: id, retryable };
        Ok(Change { head: None, rows: vec![Row::put(task)], facts, reply })
    }
}
