//! How fast something may go: so much in a second.

use std::time::{Duration, Instant};

/// Checkpoints of one attempt that are stored in a second.
pub(crate) const CHECKPOINTS_PER_SECOND: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// Counts what happens in a second, beginning with the first thing that does.
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

    /// Nothing if it may happen now, and is counted; else how long until it may.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Duration> {
        let since = self.from.map(|from| now.saturating_duration_since(from));
        match since.filter(|since| *since < SECOND) {
            None => (self.from, self.count) = (Some(now), 1),
            Some(_) if self.count < self.most => self.count += 1,
            Some(since) => return Some(SECOND - since),
        }
        None
    }

    /// Whether the last thing is so long ago that it no longer matters.
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
