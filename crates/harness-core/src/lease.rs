//! The duration of a claim whose holder sends no sign of life.

use std::time::Duration;

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

/// Renews the lease of a claimed task, and returns its end.
pub(crate) fn renew(task: &mut Task, session_lease_seconds: u64, now: Timestamp) -> Timestamp {
    renew_for(task, session_lease_seconds, CLIENT_LEASE_SECONDS, now)
}

/// Renews the lease of a claimed task, and returns its end. A client's lease does not become shorter,
/// because its claim may have asked for a longer one.
pub(crate) fn renew_for(
    task: &mut Task,
    session_lease_seconds: u64,
    client_lease_seconds: u64,
    now: Timestamp,
) -> Timestamp {
    let before = task.lease_expires_at();
    match task.claimed_via() {
        Via::Run => grant(task, session_lease_seconds, now),
        Via::Client => {
            let end = grant(task, client_lease_seconds, now);
            let end = before.map_or(end, |before| before.max(end));
            if let Some(claim) = task.claim_mut() {
                claim.lease_expires_at = Some(end);
            }
            end
        }
    }
}

/// The time until which the agent of a worker may work without a renewal: four fifths of the lease,
/// from the moment at which the last good renewal was asked for. So it is stopped before another
/// worker may take the task.
///
/// The times are those of a clock that also counts while the machine is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    lease: Duration,
    asked: Duration,
}

impl Fence {
    /// Creates the fence of a claim of which `left` is left at `now`. The claim was asked for when the
    /// rest of its lease began.
    pub fn new(lease_seconds: u64, left: Duration, now: Duration) -> Self {
        let lease = Duration::from_secs(lease_seconds.max(1));
        let passed = lease.saturating_sub(left);
        Self { lease, asked: now.saturating_sub(passed) }
    }

    /// Records a renewal that is durable and was asked for at `asked`.
    pub fn renewed(&mut self, asked: Duration) {
        self.asked = self.asked.max(asked);
    }

    /// Returns the time that is left to the agent; `None` if it has to stop.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        let end = self.asked + self.lease * 4 / 5;
        end.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// Returns the time that a last look at the ledger may take before the agent is stopped.
    pub fn last_look(&self) -> Duration {
        (self.lease / 10).clamp(Duration::from_millis(100), Duration::from_secs(30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn an_agent_may_work_for_four_fifths_of_the_lease_since_the_renewal_was_asked_for() {
        let mut fence = Fence::new(100, seconds(100), seconds(1000));
        assert_eq!(fence.left(seconds(1000)), Some(seconds(80)));
        assert_eq!(fence.left(seconds(1079)), Some(seconds(1)));
        assert_eq!(fence.left(seconds(1080)), None);
        // The renewal became durable later, which does not count.
        fence.renewed(seconds(1033));
        assert_eq!(fence.left(seconds(1080)), Some(seconds(33)));
        // An answer that comes late does not shorten it.
        fence.renewed(seconds(1010));
        assert_eq!(fence.left(seconds(1080)), Some(seconds(33)));
        assert_eq!(fence.left(seconds(50_000)), None, "the machine was suspended");
    }

    #[test]
    fn a_claim_that_was_made_earlier_has_less_time() {
        let fence = Fence::new(100, seconds(30), seconds(1000));
        assert_eq!(fence.left(seconds(1000)), Some(seconds(10)));
        let fence = Fence::new(100, seconds(10), seconds(1000));
        assert_eq!(fence.left(seconds(1000)), None);
        assert_eq!(Fence::new(1800, seconds(1800), seconds(0)).last_look(), seconds(30));
        assert_eq!(
            Fence::new(0, seconds(1), seconds(0)).left(seconds(0)).unwrap().as_millis(),
            800
        );
    }
}
