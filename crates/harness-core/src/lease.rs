//! The duration of a claim whose holder sends no sign of life.

use crate::{
    Timestamp,
    task::{Task, Via},
};

/// The lease of a session's claim, unless the configuration sets another.
pub const SESSION_LEASE_SECONDS: u64 = 1800;
/// The lease of a client's claim on a task that names no `timeout_seconds`.
pub const CLIENT_LEASE_SECONDS: u64 = 600;
/// The longest lease that a client may ask for.
pub const LEASE_SECONDS_MAX: u64 = 365 * 24 * 3600;

/// Grants the lease of a new claim, or of one that is claimed again, and returns its end.
///
/// A client does not send heartbeats while it works, so its lease is the time limit of the task, or
/// `lease_seconds` if the task has none.
/// The end is rounded up: `now` is cut to the second, and the client must get the full time that it
/// was promised.
pub(crate) fn grant(task: &mut Task, lease_seconds: u64, now: Timestamp) -> Timestamp {
    let end = match task.claimed_via() {
        Via::Run => now.plus(lease_seconds.max(1)),
        Via::Client => {
            let seconds = task.timeout_seconds.unwrap_or(lease_seconds);
            now.plus(seconds.max(1).saturating_add(1))
        }
    };
    if let Some(claim) = task.claim_mut() {
        claim.lease_expires_at = Some(end);
    }
    end
}

/// Renews the lease of a claimed task, and returns its end. A client's lease does not become shorter,
/// because its claim may have asked for a longer one.
pub(crate) fn renew(task: &mut Task, session_lease_seconds: u64, now: Timestamp) -> Timestamp {
    let before = task.lease_expires_at();
    match task.claimed_via() {
        Via::Run => grant(task, session_lease_seconds, now),
        Via::Client => {
            let end = grant(task, CLIENT_LEASE_SECONDS, now);
            let end = before.map_or(end, |before| before.max(end));
            if let Some(claim) = task.claim_mut() {
                claim.lease_expires_at = Some(end);
            }
            end
        }
    }
}
