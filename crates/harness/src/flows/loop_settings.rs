//! What the loops over contexts share: the row of the run that pays, and how they are decided.

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

/// The row of this `harness run`, and what its loops are decided by.
#[derive(Clone)]
pub struct LoopSettings {
    /// Where runs are stored.
    pub runs: Arc<dyn Runs>,
    /// The run that pays: an objective's own, or the parent of the attempts.
    pub run: RunId,
    /// Who drives it.
    pub by: Option<Owner>,
    /// Names for the runs of attempts.
    pub new_id: Arc<dyn Fn() -> RunId + Send + Sync>,
    /// `until` and `transcripts` are filled in for each loop.
    pub rules: Rules,
    /// What a summarizer costs that tells no money.
    pub summarizer_price: Option<Price>,
    /// What agents are told.
    pub prompts: Arc<Prompts>,
}

/// What a run has left of its own.
pub(super) fn purse(run: &Run) -> Purse {
    Purse { limits: run.limits, spent: run.usage, deadline: run.deadline }
}
