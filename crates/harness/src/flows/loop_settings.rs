//! The settings that the loops over contexts share: the run that pays, and the rules.

use std::sync::Arc;

use harness::{
    core::{
        Run, RunId,
        machine::iterate::{Purse, Rules},
        run::{Owner, Price},
    },
    prompts::Prompts,
    store::Runs,
};

/// The row of this `harness run`, and the rules of its loops.
#[derive(Clone)]
pub struct LoopSettings {
    /// The store of the runs.
    pub runs: Arc<dyn Runs>,
    /// The run that pays: an objective's own, or the parent of the attempts.
    pub run: RunId,
    /// The process that drives the run.
    pub by: Option<Owner>,
    /// Generates names for the runs of attempts.
    pub new_id: Arc<dyn Fn() -> RunId + Send + Sync>,
    /// The rules of a loop. `until` and `transcripts` are filled in for each loop.
    pub rules: Rules,
    /// The price of a summarizer that reports no cost.
    pub summarizer_price: Option<Price>,
    /// The texts for agents.
    pub prompts: Arc<Prompts>,
}

/// Returns the remaining allowance of a run.
pub(super) fn purse(run: &Run) -> Purse {
    Purse { limits: run.limits, spent: run.usage, deadline: run.deadline }
}
