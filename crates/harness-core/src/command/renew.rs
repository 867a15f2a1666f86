//! Renews a claim.

use super::{Change, Holder, Refusal, Reply};
use crate::{Timestamp, fact::Fact, lease, ledger::Ledger};

/// Extends the lease of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// The holder of the claim.
    pub holder: Holder,
    /// The lease from now on for the claim of a session. A client's lease comes from the task.
    pub lease_seconds: u64,
}

impl Renew {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut task = self.holder.claimed(ledger)?.clone();
        let expires_at = lease::renew(&mut task, self.lease_seconds, now);
        let id = task.id.clone();
        let fact = Fact::Renewed { task: id.clone(), expires_at };
        Ok(Change::put(task, fact, Reply::Lease { task: id, expires_at }))
    }
}
