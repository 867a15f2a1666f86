//! The clock port.

use std::time::{SystemTime, UNIX_EPOCH};

use harness_core::Timestamp;

/// Returns the time. The simulator has a clock that it can step.
pub trait Clock: Send + Sync {
    /// Returns the current time in seconds.
    fn now(&self) -> Timestamp;

    /// Returns whether the clock may be set, so that a lease must not end by it alone. Only the
    /// wall clock is set by people and time servers.
    fn may_be_set(&self) -> bool {
        false
    }
}

/// The wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_seconds(i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX))
    }

    fn may_be_set(&self) -> bool {
        true
    }
}
