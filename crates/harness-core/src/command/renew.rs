//! A holder says that it is alive.

use super::{Change, Holder, Refusal, Reply};
use crate::{Timestamp, fact::Fact, lease, ledger::Ledger};

/// Makes the claim last longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// Whose claim it is.
    pub holder: Holder,
    /// From now on, for the claim of a session; a client's is the task's own.
    pub lease_seconds: u64,
}

impl Renew {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut task = self.holder.claimed(ledger)?.clone();
        let expires_at = lease::grant(&mut task, self.lease_seconds, now);
        let id = task.id.clone();
        let fact = Fact::Renewed { task: id.clone(), expires_at };
        Ok(Change::put(task, fact, Reply::Lease { task: id, expires_at }))
    }
}
