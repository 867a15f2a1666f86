//! What a loop may use, and when an agent that is limited may be asked again.

use crate::{Timestamp, agent::Usage, run::RunLimits};

/// The first wait where no end of the limit was told, at most; each further one is twice as long.
const FIRST_SECONDS: u64 = 60;
/// No wait of our own is longer.
const LONGEST_SECONDS: u64 = 30 * 60;

/// No limit lasts longer: a month, and a bit for zones and clocks.
const BELIEVED_SECONDS: u64 = 35 * 24 * 60 * 60;

/// Who pays, and what is left.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Purse {
    /// What may be used in all.
    pub limits: RunLimits,
    /// What has been, by everything that it pays for.
    pub spent: Usage,
    /// When the time is up.
    pub deadline: Option<Timestamp>,
}

impl Purse {
    /// Dollars, where they are limited.
    pub(super) fn cost_left_usd(&self) -> Option<f64> {
        let spent = self.spent.cost_usd.unwrap_or_default();
        self.limits.max_cost_usd.map(|most| (most - spent).max(0.0))
    }

    /// What is used up, in words.
    pub fn used_up(&self, now: Timestamp) -> Option<String> {
        let time = || {
            let over = self.deadline.is_some_and(|deadline| deadline <= now);
            over.then(|| "the time limit".to_owned())
        };
        self.limits.used_up(&self.spent).or_else(time)
    }
}

/// The agents by preference, and until when each is limited.
#[derive(Debug, Clone)]
pub(super) struct Agents {
    limited_until: Vec<Option<Timestamp>>,
    at_work: usize,
    /// Limits in a row.
    in_a_row: u32,
    /// Makes the waits of many runs end at different moments.
    seed: u64,
}

impl Agents {
    pub(super) fn new(count: usize, name: &str) -> Self {
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { limited_until: vec![None; count], at_work: 0, in_a_row: 0, seed }
    }

    /// The first that may be asked; it is the one at work from now on.
    pub(super) fn free(&mut self, now: Timestamp) -> Option<usize> {
        let free = |until: &Option<Timestamp>| until.is_none_or(|until| until <= now);
        self.at_work = self.limited_until.iter().position(free)?;
        Some(self.at_work)
    }

    pub(super) fn at_work(&self) -> usize {
        self.at_work
    }

    /// Where it is known to be limited still.
    pub(super) fn limited_until(&self, agent: usize, now: Timestamp) -> Option<Timestamp> {
        self.limited_until.get(agent).copied().flatten().filter(|until| *until > now)
    }

    /// The one at work is limited until then. A time that has passed already is no answer, nor one
    /// that nobody would wait for.
    pub(super) fn limited(&mut self, now: Timestamp, until: Option<Timestamp>) {
        let believed = |until: &Timestamp| *until > now && until.since(now) <= BELIEVED_SECONDS;
        let until = until.filter(believed).unwrap_or_else(|| {
            let longest = FIRST_SECONDS << self.in_a_row.min(10);
            let longest = longest.min(LONGEST_SECONDS);
            // Between half of it and all of it.
            let jitter = self.seed.rotate_left(self.in_a_row * 7) % (longest / 2 + 1);
            now.plus(longest - jitter)
        });
        self.in_a_row += 1;
        self.limited_until[self.at_work] = Some(until);
    }

    /// It worked: the next limit is a first one.
    pub(super) fn answered(&mut self) {
        self.in_a_row = 0;
    }

    pub(super) fn believe_none(&mut self) {
        self.limited_until.fill(None);
    }

    /// It was waited until then: who is limited no longer than that is free, whatever a clock that
    /// was set back says.
    pub(super) fn waited(&mut self, until: Timestamp) {
        for limited in &mut self.limited_until {
            *limited = limited.filter(|limited| *limited > until);
        }
    }

    pub(super) fn next_free(&self, now: Timestamp) -> Timestamp {
        self.limited_until.iter().flatten().min().copied().unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn waits_grow_from_a_minute_to_half_an_hour() {
        let mut agents = Agents::new(1, "0197");
        let mut longest = 0;
        for n in 0..12 {
            agents.limited(at(0), None);
            let wait = agents.next_free(at(0)).since(at(0));
            assert!((30..=LONGEST_SECONDS).contains(&wait), "{n}: {wait}");
            assert!(n > 0 || wait <= FIRST_SECONDS, "{wait}");
            longest = longest.max(wait);
        }
        assert!(longest > LONGEST_SECONDS / 2);
        agents.answered();
        agents.limited(at(0), Some(at(-5)));
        assert!(agents.next_free(at(0)).since(at(0)) <= FIRST_SECONDS);
        agents.limited(at(0), Some(at(9000)));
        assert_eq!(agents.next_free(at(0)), at(9000));
        agents.answered();
        agents.limited(at(0), Some(at(253_402_300_799)));
        assert!(agents.next_free(at(0)).since(at(0)) <= FIRST_SECONDS);
    }

    #[test]
    fn another_agent_takes_over_until_the_first_is_free() {
        let mut agents = Agents::new(2, "x");
        assert_eq!(agents.free(at(0)), Some(0));
        agents.limited(at(0), Some(at(100)));
        assert_eq!(agents.free(at(0)), Some(1));
        agents.limited(at(0), Some(at(50)));
        assert_eq!(agents.free(at(0)), None);
        assert_eq!(agents.next_free(at(0)), at(50));
        assert_eq!(agents.free(at(50)), Some(1));
        assert_eq!(agents.free(at(100)), Some(0));
        agents.believe_none();
        assert_eq!(agents.free(at(0)), Some(0));
    }
}
