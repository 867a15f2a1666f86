//! The budget of a loop, and the times at which limited agents may be asked again.

use crate::{
    Timestamp,
    agent::Usage,
    run::{Allowance, RunLimits},
};

/// The longest first wait if the end of a limit is not reported. Each further wait is twice as
/// long.
const FIRST_SECONDS: u64 = 60;
/// The longest wait that harness chooses itself.
const LONGEST_SECONDS: u64 = 30 * 60;

/// The longest plausible limit: a month, and some reserve for time zones and clocks.
const BELIEVED_SECONDS: u64 = 35 * 24 * 60 * 60;

/// A budget and what was spent of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Purse {
    /// The limits of the budget.
    pub limits: RunLimits,
    /// The usage of everything that the budget pays for.
    pub spent: Usage,
    /// The end of the time limit.
    pub deadline: Option<Timestamp>,
}

impl Purse {
    /// Replaces the limits and returns whether they differ. What was spent counts as before.
    pub(super) fn allow(&mut self, allowance: Allowance) -> bool {
        let before = Allowance { limits: self.limits, deadline: self.deadline };
        (self.limits, self.deadline) = (allowance.limits, allowance.deadline);
        before != allowance
    }

    /// Returns the remaining money in US dollars, if it is limited.
    pub(super) fn cost_left_usd(&self) -> Option<f64> {
        let spent = self.spent.cost_usd.unwrap_or_default();
        self.limits.max_cost_usd.map(|most| (most - spent).max(0.0))
    }

    /// Returns the limit that is used up, as text.
    pub fn used_up(&self, now: Timestamp) -> Option<String> {
        let time = || {
            let over = self.deadline.is_some_and(|deadline| deadline <= now);
            over.then(|| "the time limit".to_owned())
        };
        self.limits.used_up(&self.spent).or_else(time)
    }
}

/// The agents in order of preference, and the end of each agent's limit.
#[derive(Debug, Clone)]
pub(super) struct Agents {
    limited_until: Vec<Option<Timestamp>>,
    at_work: usize,
    /// The number of limits in a row.
    in_a_row: u32,
    /// A seed that makes the waits of many runs end at different times.
    seed: u64,
}

impl Agents {
    pub(super) fn new(count: usize, name: &str) -> Self {
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { limited_until: vec![None; count], at_work: 0, in_a_row: 0, seed }
    }

    /// Returns the first agent that may be asked. It is the working agent from now on.
    pub(super) fn free(&mut self, now: Timestamp) -> Option<usize> {
        let free = |until: &Option<Timestamp>| until.is_none_or(|until| until <= now);
        self.at_work = self.limited_until.iter().position(free)?;
        Some(self.at_work)
    }

    pub(super) fn at_work(&self) -> usize {
        self.at_work
    }

    /// Returns the end of the agent's limit, if it is still limited.
    pub(super) fn limited_until(&self, agent: usize, now: Timestamp) -> Option<Timestamp> {
        self.limited_until.get(agent).copied().flatten().filter(|until| *until > now)
    }

    /// Records that the working agent is limited. A time in the past, or one that is implausibly
    /// far in the future, is ignored.
    pub(super) fn limited(&mut self, now: Timestamp, until: Option<Timestamp>) {
        let believed = |until: &Timestamp| *until > now && until.since(now) <= BELIEVED_SECONDS;
        let until = until.filter(believed).unwrap_or_else(|| {
            let longest = FIRST_SECONDS << self.in_a_row.min(10);
            let longest = longest.min(LONGEST_SECONDS);
            // Wait between half of the longest time and all of it.
            let jitter = self.seed.rotate_left(self.in_a_row * 7) % (longest / 2 + 1);
            now.plus(longest - jitter)
        });
        self.in_a_row += 1;
        self.limited_until[self.at_work] = Some(until);
    }

    /// Resets the count of limits in a row after an agent worked.
    pub(super) fn answered(&mut self) {
        self.in_a_row = 0;
    }

    pub(super) fn believe_none(&mut self) {
        self.limited_until.fill(None);
    }

    /// Frees the agents whose limits end no later than `until`, because the run waited until then.
    /// This holds even if the clock was set back.
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
