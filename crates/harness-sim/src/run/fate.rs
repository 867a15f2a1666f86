//! The fate of one process, and of the row that it drives.

use harness_core::{
    command::Anew,
    run::{Price, RunLimits},
};

use super::stage::{Doom, Fate};
use crate::random::Random;

impl Fate {
    pub(super) fn any(random: &mut Random, quiet: bool) -> Self {
        if quiet {
            return Self { quiet, ..Self::default() };
        }
        let doom = match random.weighted(&[18, 22, 20, 20, 12, 8]) {
            0 => None,
            1 => Some(Doom::Git(random.below(24) as u32)),
            2 => Some(Doom::Disk(random.below(220) as u32)),
            3 => Some(Doom::Effect(random.below(40) as u32)),
            4 => Some(Doom::Answer(random.below(24) as u32)),
            _ => Some(Doom::Time(moment(random))),
        };
        Self {
            doom,
            interrupt: random.percent(30).then(|| random.below(48) as u32),
            interrupt_at: random.percent(10).then(|| moment(random)),
            kick_at: random.percent(10).then(|| moment(random)),
            no_wait: random.percent(10),
            impatient: random.percent(25),
            lacks_checks: random.percent(8),
            init_fails: random.percent(6),
            quiet,
        }
    }
}

/// Returns a time in the middle of a turn, of a wait, or of a long wait.
fn moment(random: &mut Random) -> u64 {
    let most = [200, 2000, 20_000][random.below(3)];
    random.below(most) as u64
}

/// Returns small limits, so that they are reached.
pub(super) fn limits(random: &mut Random) -> RunLimits {
    RunLimits {
        max_iterations: random.below(4) as u32,
        #[allow(clippy::cast_precision_loss, reason = "small")]
        max_cost_usd: random.percent(25).then(|| (1 + random.below(24)) as f64 / 8.0),
        max_tokens: random.percent(25).then(|| 1000 + random.below(30_000) as u64),
        max_duration_seconds: random.percent(25).then(|| 60 + random.below(4000) as u64),
    }
}

/// Returns limits that are never reached.
pub(super) fn raised(max_iterations: Option<u32>) -> Anew {
    Anew {
        max_iterations,
        max_cost_usd: Some(1e9),
        max_tokens: Some(1 << 40),
        max_duration_seconds: Some(400 * 86_400),
        ..Anew::default()
    }
}

/// Returns the prices of one agent, or of two where the second takes over.
pub(super) fn prices(random: &mut Random) -> Vec<Option<Price>> {
    let count = if random.percent(30) { 2 } else { 1 };
    (0..count).map(|_| random.percent(40).then_some(Price { input: 12.5, output: 62.5 })).collect()
}
