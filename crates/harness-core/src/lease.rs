//! The duration of a claim whose holder sends no sign of life.

use crate::{
    Timestamp,
    task::{Task, Via},
};

/// The lease of a session's claim, unless the configuration sets another.
pub const SESSION_LEASE_SECONDS: u64 = 1800;
/// The lease of a client's claim on a task that names no `timeout_seconds`.
pub const CLIENT_LEASE_SECONDS: u64 = 600;

/// Grants or renews the lease of a claimed task, and returns its end.
///
/// A client does not send heartbeats while it works, so its lease is the time limit of the task.
/// The end is rounded up: `now` is cut to the second, and the client must get the full time that it
/// was promised.
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
