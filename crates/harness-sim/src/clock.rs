//! A clock that a test moves, or that follows the paused time of a runtime.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use harness::clock::Clock;
use harness_core::Timestamp;
use tokio::time::Instant;

#[derive(Debug)]
pub struct SimClock {
    set: AtomicI64,
    /// The time of the runtime counts from this moment on.
    followed: Mutex<Option<Instant>>,
}

impl SimClock {
    pub fn at(now: Timestamp) -> Self {
        Self { set: AtomicI64::new(now.seconds()), followed: Mutex::default() }
    }

    /// Moves the clock forwards, or backwards as real clocks do.
    pub fn step(&self, seconds: i64) {
        self.set.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Makes this clock follow the sleeps of the runtime until the guard is dropped. This works
    /// only in a runtime whose time is paused. Any other runtime uses the time of the machine,
    /// which no seed replays.
    pub fn follow(&self) -> Following<'_> {
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Following(self)
    }

    /// Stops following the runtime, so that another one can be followed meanwhile.
    pub fn pause(&self) {
        self.step(self.slept());
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Follows this runtime again, after another one.
    pub fn resume(&self) {
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn slept(&self) -> i64 {
        let since = *self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(0, |since| i64::try_from(since.elapsed().as_secs()).unwrap_or(i64::MAX))
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(self.set.load(Ordering::Relaxed).saturating_add(self.slept()))
    }
}

/// While this guard lives, a clock follows a runtime. It must be dropped inside of that runtime.
#[derive(Debug)]
pub struct Following<'a>(&'a SimClock);

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.0.step(self.0.slept());
        *self.0.followed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
