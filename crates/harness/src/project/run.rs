//! A run that this process drives, and its end.

use std::sync::Arc;

use harness_core::{
    Run,
    command::{OfRun, RunStep},
    run::{Owner, StopReason},
};

use super::{KeptTerms, Pursuit, RunBudget, RunDriver, RunError, RunWarning, record::stored};
use crate::{clock::Clock, hub::Hub, store::Runs};

/// A run that this process drives.
///
/// [`Project::begin`](super::Project::begin) returns one, and [`Engine::work`](super::Engine::work)
/// or [`Engine::pursue`](super::Engine::pursue) records why it stopped.
pub struct ActiveRun {
    pub(super) row: Run,
    pub(super) pursuit: Pursuit,
    pub(super) part: RunPart,
    pub(super) runs: Arc<dyn Runs>,
    pub(super) driver: RunDriver,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) warnings: Vec<RunWarning>,
    pub(super) terms: Option<KeptTerms>,
}

/// The part of this process in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunPart {
    /// It keeps the row and records its end.
    Driver,
    /// It works for a run that another process drives.
    Guest,
}

impl ActiveRun {
    /// Returns the row as this process took it.
    pub fn row(&self) -> &Run {
        &self.row
    }

    /// Returns the warnings for a person about its beginning.
    pub fn warnings(&self) -> &[RunWarning] {
        &self.warnings
    }

    /// Returns the way in which an objective is started.
    pub fn pursuit(&self) -> Pursuit {
        self.pursuit
    }

    /// Returns the part of this process.
    pub fn part(&self) -> RunPart {
        self.part
    }

    /// Returns the name of the file in which this process records its events.
    pub(super) fn recorded_as(&self) -> String {
        match self.part {
            RunPart::Driver => self.row.id.to_string(),
            RunPart::Guest => format!("{}.{}", self.row.id, self.driver.owner.pid),
        }
    }

    /// Returns the process in whose name steps of the run are taken: its driver. A guest may report
    /// that the run waits for a person.
    pub(super) fn driven_by(&self) -> Owner {
        match (self.part, &self.row.lease) {
            (RunPart::Guest, Some(lease)) => lease.owner.clone(),
            (RunPart::Guest, None) | (RunPart::Driver, _) => self.driver.owner.clone(),
        }
    }

    /// Returns a hub with the name of the run, through which people can send messages to it.
    pub fn hub(&self) -> Hub {
        let hub = Hub::new(self.row.id.as_str());
        hub.start_session();
        hub
    }

    /// Returns the record that holds its row, as this process sees it.
    pub fn record(&self) -> Arc<dyn Runs> {
        Arc::clone(&self.runs)
    }

    /// Returns the row as it is stored now.
    pub fn stored(&self) -> Result<Run, RunError> {
        stored(&*self.runs, &self.row.id)
    }

    /// Records why the run stopped, unless that is recorded already. Returns the row as it is
    /// stored then.
    pub fn end(&self, reason: StopReason) -> Result<Run, RunError> {
        let or_known = |found: Option<Run>| found.unwrap_or_else(|| self.row.clone());
        let row = or_known(self.runs.run(&self.row.id)?);
        if row.status.is_over() || self.part == RunPart::Guest {
            return Ok(row);
        }
        let stop = self.step(RunStep::Stop(reason));
        if let Err(refusal) = self.runs.apply(self.clock.now(), &stop)? {
            tracing::warn!("{refusal}");
        }
        Ok(or_known(self.runs.run(&self.row.id)?))
    }

    /// Adds warnings from before it began.
    #[cfg(feature = "sqlite")]
    pub(super) fn after(self, earlier: Vec<RunWarning>) -> Self {
        Self { warnings: earlier.into_iter().chain(self.warnings).collect(), ..self }
    }

    /// Replaces the access to the record with one that wraps it.
    #[doc(hidden)]
    #[must_use]
    pub fn through(self, way: impl FnOnce(Arc<dyn Runs>) -> Arc<dyn Runs>) -> Self {
        Self { runs: way(self.runs), ..self }
    }

    /// Returns the access to its budget; `None` for a guest, because only the driver changes the row.
    pub(crate) fn budget(&self) -> Option<RunBudget> {
        (self.part == RunPart::Driver).then(|| RunBudget {
            run: self.row.id.clone(),
            by: Some(self.driver.owner.clone()),
            runs: Arc::clone(&self.runs),
            terms: self.terms.clone(),
            clock: Arc::clone(&self.clock),
        })
    }

    /// Returns a step of this run by its driver.
    pub(super) fn step(&self, step: RunStep) -> OfRun {
        OfRun { run: self.row.id.clone(), by: Some(self.driver.owner.clone()), step }
    }
}
