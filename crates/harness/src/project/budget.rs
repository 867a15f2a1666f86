//! The budget of one run: what it may use, and what it has used.

use std::sync::Arc;

use harness_core::{
    Run, RunId,
    command::{OfRun, RunStep},
    run::{Budget, Owner},
};

use super::{KeptTerms, RunError, record::stored};
use crate::{clock::Clock, store::Runs};

/// The access to the budget of a run.
#[derive(Clone)]
pub struct RunBudget {
    pub(super) run: RunId,
    /// The process in whose name the row is changed.
    pub(super) by: Option<Owner>,
    pub(super) runs: Arc<dyn Runs>,
    pub(super) terms: Option<KeptTerms>,
    pub(super) clock: Arc<dyn Clock>,
}

impl RunBudget {
    /// Returns the name of the run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns the row. Blocks.
    pub fn read(&self) -> Result<Run, RunError> {
        stored(&*self.runs, &self.run)
    }

    /// Changes the budget, and returns the row as it is stored then. Blocks.
    pub fn change(&self, budget: Budget) -> Result<Run, RunError> {
        let step = RunStep::Allow(budget);
        let of_run = OfRun { run: self.run.clone(), by: self.by.clone(), step };
        self.runs.apply(self.clock.now(), &of_run)??;
        let row = self.read()?;
        if let Some(Err(warning)) = self.terms.as_ref().map(|terms| terms.keep(&row)) {
            tracing::warn!("{warning}");
        }
        Ok(row)
    }
}
