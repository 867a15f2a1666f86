//! The time of the database, for decisions outside of a transaction. The ends of leases are in that time,
//! and the clock of a machine may be wrong.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use harness_core::Timestamp;

use crate::clock::{Clock, SystemClock};

/// The difference between the clock of a database and that of this machine in seconds, as last seen. All
/// clones share it.
#[derive(Debug, Clone, Default)]
pub struct ClockOffset(Arc<AtomicI64>);

impl ClockOffset {
    /// Notes what the database tells now.
    pub(super) fn note(&self, database: i64) {
        self.0.store(database.saturating_sub(SystemClock.now().seconds()), Ordering::Relaxed);
    }

    /// Returns a clock that tells the time of the database, by this machine's own clock and the difference.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(DatabaseClock(self.clone()))
    }
}

struct DatabaseClock(ClockOffset);

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let offset = self.0.0.load(Ordering::Relaxed);
        Timestamp::from_seconds(SystemClock.now().seconds().saturating_add(offset))
    }

    fn since_boot(&self) -> std::time::Duration {
        SystemClock.since_boot()
    }

    fn may_be_set(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_whose_clock_is_wrong_has_the_time_of_the_database() {
        let offset = ClockOffset::default();
        let clock = offset.clock();
        for hours in [1, -1] {
            let database = SystemClock.now().seconds() + hours * 3600;
            offset.note(database);
            let differs = clock.now().seconds() - database;
            assert!((0..60).contains(&differs), "{differs}");
        }
    }
}
