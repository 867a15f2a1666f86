//! Renews a claim.

use serde::{Deserialize, Serialize};

use super::{Change, Holder, Refusal, Reply};
use crate::{Timestamp, fact::Fact, lease, ledger::Ledger};

/// Extends the lease of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    /// The holder of the claim.
    pub holder: Holder,
    /// The lease from now on for the claim of a session.
    pub lease_seconds: u64,
    /// The lease from now on for the claim of a client on a task without a time limit.
    pub client_lease_seconds: u64,
}

impl Renew {
    /// Renews a claim, for `lease_seconds` if it is that of a session. A client gets the usual time.
    pub fn new(holder: Holder, lease_seconds: u64) -> Self {
        Self { holder, lease_seconds, client_lease_seconds: lease::CLIENT_LEASE_SECONDS }
    }

    /// Changes the lease of a client, up to the longest that one may ask for.
    #[must_use]
    pub fn for_client(mut self, seconds: Option<u64>) -> Self {
        let seconds = seconds.unwrap_or(self.client_lease_seconds);
        self.client_lease_seconds = seconds.min(lease::LEASE_SECONDS_MAX);
        self
    }

    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut task = self.holder.claimed(ledger)?.clone();
        let expires_at = {
            let (session, client) = (self.lease_seconds, self.client_lease_seconds);
            lease::renew_for(&mut task, session, client, now)
        };
        let id = task.id.clone();
        let fact = Fact::Renewed { task: id.clone(), expires_at };
        Ok(Change::put(task, fact, Reply::Lease { task: id, expires_at }))
    }
}
