//! A clock that only goes where it is told to.

use std::sync::atomic::{AtomicI64, Ordering};

use harness::clock::Clock;
use harness_core::Timestamp;

#[derive(Debug)]
pub struct SimClock(AtomicI64);

impl SimClock {
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.seconds()))
    }

    /// Forwards, or backwards as clocks do.
    pub fn step(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(self.0.load(Ordering::Relaxed))
    }
}
