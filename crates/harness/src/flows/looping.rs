//! What the loops over contexts work with.

use std::sync::Arc;

use harness::{
    Named,
    core::{
        Run, RunId,
        machine::iterate::{Purse, Rules},
        run::{Owner, Price},
    },
    prompts::Prompts,
    store::Runs,
};

/// The agents of a session.
pub struct Team<A> {
    /// The agents that do the work.
    pub worker: Named<A>,
    /// Who takes over while it is limited, by preference.
    pub others: Vec<Named<A>>,
    /// Who makes a short text of a long transcript.
    pub summarizer: Option<Named<A>>,
}

impl<A> Team<A> {
    /// One agent that does everything.
    pub fn of(worker: Named<A>) -> Self {
        Self { worker, others: Vec::new(), summarizer: None }
    }

    /// By preference, from 0; one that is not there is the first.
    pub(super) fn agent(&self, number: usize) -> &Named<A> {
        let other = number.checked_sub(1).and_then(|n| self.others.get(n));
        other.unwrap_or(&self.worker)
    }
}

/// The row of this `harness run`, and what its loops are decided by.
#[derive(Clone)]
pub struct Looping {
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
