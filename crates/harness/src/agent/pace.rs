//! A limit of events per second.

use std::time::{Duration, Instant};

/// The number of checkpoints of one attempt that are stored per second.
pub(crate) const CHECKPOINTS_PER_SECOND: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// Counts the events of a second, which begins with the first of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    most: u32,
    from: Option<Instant>,
    count: u32,
}

impl Pace {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, from: None, count: 0 }
    }

    /// Returns `None` if it may happen now, and counts it. Otherwise returns the time until it may.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Duration> {
        let since = self.from.map(|from| now.saturating_duration_since(from));
        match since.filter(|since| *since < SECOND) {
            None => (self.from, self.count) = (Some(now), 1),
            Some(_) if self.count < self.most => self.count += 1,
            Some(since) => return Some(SECOND - since),
        }
        None
    }

    /// Returns whether the last event is so long ago that it no longer matters.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.from.is_none_or(|from| now.saturating_duration_since(from) >= SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_go_in_a_second() {
        let (mut pace, start) = (Pace::new(2), Instant::now());
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        assert_eq!(pace.wait(at(0)), None);
        assert_eq!(pace.wait(at(100)), None);
        assert_eq!(pace.wait(at(300)), Some(Duration::from_millis(700)));
        assert_eq!(pace.wait(at(1000)), None);
        assert!(!pace.is_over(at(1999)) && pace.is_over(at(2000)));
    }
}
