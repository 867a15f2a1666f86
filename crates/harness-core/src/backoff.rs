//! The pauses between the tries of somebody who waits for a server.

use std::time::Duration;

/// Pauses that double from one try to the next, up to a limit. Half of each pause is left to chance, so
/// that machines that lost a server at the same moment do not all return to it at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Backoff {
    /// Returns the pause after `failed` earlier pauses. `random` is any number.
    pub fn pause(&self, failed: u32, random: u64) -> Duration {
        let doubled = 1_u32.checked_shl(failed).unwrap_or(u32::MAX);
        let whole = self.first.saturating_mul(doubled).min(self.longest);
        let half = whole / 2;
        let span = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        half + Duration::from_nanos(random % span)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff =
        Backoff { first: Duration::from_millis(20), longest: Duration::from_secs(1) };

    #[test]
    fn pauses_double_up_to_the_longest() {
        let longest = |failed| BACKOFF.pause(failed, 10_000_000 << failed.min(5));
        let pauses = [0, 1, 2, 3].map(longest).map(|pause| pause.as_millis());
        assert_eq!(pauses, [20, 40, 80, 160]);
        for failed in [6, 31, 32, 33, u32::MAX] {
            assert_eq!(BACKOFF.pause(failed, 500_000_000), Duration::from_secs(1), "{failed}");
        }
    }

    proptest! {
        #[test]
        fn a_pause_is_between_half_and_the_whole(failed: u32, random: u64) {
            let whole = 20_u64.saturating_mul(1 << failed.min(10)).min(1000);
            let pause = BACKOFF.pause(failed, random);
            prop_assert!(pause >= Duration::from_millis(whole) / 2, "{pause:?}");
            prop_assert!(pause <= Duration::from_millis(whole), "{pause:?}");
        }
    }
}
