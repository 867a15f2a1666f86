//! The cost of work.

use harness_core::{Timestamp, agent::Usage, run::Run};
use serde::Serialize;

/// Tokens, money and time of some runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spending {
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// The cost; `None` if no agent reported a price.
    pub cost_usd: Option<f64>,
    /// The time from the start of each run to its last change.
    pub seconds: u64,
}

impl Spending {
    /// Returns the sum of `runs`. The usage of a run over the ledger includes that of its attempts.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Self {
        let mut usage = Usage::default();
        let mut seconds = 0;
        for run in runs {
            usage += run.usage;
            seconds += lasted(run.created_at, run.updated_at);
        }
        let Usage { input_tokens, output_tokens, cost_usd } = usage;
        Self { input_tokens, output_tokens, cost_usd, seconds }
    }

    /// Returns the sum of input and output tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Returns the time between two moments; none if they are in the wrong order.
pub(super) fn lasted(from: Timestamp, to: Timestamp) -> u64 {
    if to > from { to.since(from) } else { 0 }
}
