//! A clock that only goes where it is told to, or with the paused time of a runtime.

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
    /// Since then the time of a runtime counts too.
    followed: Mutex<Option<Instant>>,
}

impl SimClock {
    pub fn at(now: Timestamp) -> Self {
        Self { set: AtomicI64::new(now.seconds()), followed: Mutex::default() }
    }

    /// Forwards, or backwards as clocks do.
    pub fn step(&self, seconds: i64) {
        self.set.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Until the guard goes, what sleeps in the runtime lets this clock pass too. Only inside of a
    /// runtime whose time is paused: any other is the time of the machine, which no seed replays.
    pub fn follow(&self) -> Following<'_> {
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Following(self)
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

/// While it lives, a clock follows a runtime. It has to go inside of that runtime.
#[derive(Debug)]
pub struct Following<'a>(&'a SimClock);

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.0.step(self.0.slept());
        *self.0.followed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
