//! How long a claim is worth something without a word from its holder.

use crate::{
    Timestamp,
    task::{Task, Via},
};

/// The lease of a session's claim, unless the configuration says otherwise.
pub const SESSION_LEASE_SECONDS: u64 = 1800;
/// The lease of a client's claim on a task that names no `timeout_seconds`.
pub const CLIENT_LEASE_SECONDS: u64 = 600;

/// Grants or renews the lease of a claimed task, and returns its end. A client's is the task's own, since a client does not
/// send heartbeats while it works. It is rounded up: `now` is cut to the second, and what a client was
/// promised it has.
pub(crate) fn grant(task: &mut Task, session_lease_seconds: u64, now: Timestamp) -> Timestamp {
    let end = match task.claimed_via() {
        Via::Run => now.plus(session_lease_seconds.max(1)),
        Via::Client => {
            let seconds = task.timeout_seconds.unwrap_or(CLIENT_LEASE_SECONDS);
            now.plus(seconds.max(1).saturating_add(1))
        }
    };
    if let Some(claim) = task.claim_mut() {
        claim.lease_expires_at = Some(end);
    }
    end
}
