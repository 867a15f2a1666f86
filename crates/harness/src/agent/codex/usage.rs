//! Computes the usage of a turn from the totals of its thread. Codex reports tokens, but no cost.

use harness_core::agent::Usage;

use super::parse::Totals;

/// Counts the usage of one execution.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meter {
    /// The last reported totals of the thread, including earlier executions.
    told: Totals,
    /// The usage of this execution.
    used: Usage,
}

impl Meter {
    /// Creates a meter. `before` is the usage of earlier executions of the same thread.
    pub(super) fn new(before: Usage) -> Meter {
        let told =
            Totals { input_tokens: before.input_tokens, output_tokens: before.output_tokens };
        Meter { told, used: Usage::default() }
    }

    /// Takes the totals of the thread, and returns the new part.
    pub(super) fn take(&mut self, totals: Totals) -> Usage {
        let began_anew = totals.input_tokens < self.told.input_tokens
            || totals.output_tokens < self.told.output_tokens;
        let told = if began_anew { Totals::default() } else { self.told };
        let more = Usage {
            input_tokens: totals.input_tokens.saturating_sub(told.input_tokens),
            output_tokens: totals.output_tokens.saturating_sub(told.output_tokens),
            cost_usd: None,
        };
        self.told = totals;
        self.used += more;
        more
    }

    pub(super) fn used(&self) -> Usage {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, cost_usd: None }
    }

    #[test]
    fn totals_become_increments() {
        let mut meter = Meter::new(tokens(2000, 100));
        let take = |meter: &mut Meter, input_tokens, output_tokens| {
            meter.take(Totals { input_tokens, output_tokens })
        };
        assert_eq!(take(&mut meter, 3000, 150), tokens(1000, 50));
        assert_eq!(take(&mut meter, 3000, 150), tokens(0, 0));
        assert_eq!(meter.used(), tokens(1000, 50));
        // A thread that lost its usage counts from zero.
        assert_eq!(take(&mut meter, 10, 5), tokens(10, 5));
        assert_eq!(meter.used(), tokens(1010, 55));
    }
}
