//! The clock port.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness_core::Timestamp;

/// Returns the time. The simulator has a clock that it can step.
pub trait Clock: Send + Sync {
    /// Returns the current time in seconds.
    fn now(&self) -> Timestamp;

    /// Returns the time since some moment in the past, by a clock that cannot be set and also counts
    /// while the machine is suspended.
    fn since_boot(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.now().seconds()).unwrap_or_default())
    }

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

    fn since_boot(&self) -> Duration {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let clock = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(clock);
        let part = |number: i64| u64::try_from(number).unwrap_or_default();
        Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
    }

    fn may_be_set(&self) -> bool {
        true
    }
}
