//! A run that this process drives: how its row begins or is taken up again, and how it ends.

use std::{io, sync::Arc};

use harness_core::{
    Ledger, Refusal, Run, RunId,
    command::{Anew, OfRun, RunStep, Take},
    run::{Owner, RunStatus, StopReason},
    task::Status,
};

use super::{
    Pursuit,
    terms::{KeptTerms, RunWarning},
};
use crate::{
    clock::Clock,
    error::Error,
    store::{RunStoreError, Runs, SteadyRuns, StoreError, is_gone, this_process},
};

/// How long the owner of a run is believed without a sign of life, where nobody can look whether it is
/// gone: on another machine.
pub const RUN_LEASE_SECONDS: u64 = 300;

/// The process that drives runs.
#[derive(Clone)]
pub struct RunDriver {
    /// Its name in the rows that it takes.
    pub owner: Owner,
    /// Whether the process of another row is known to have ended.
    pub is_gone: Arc<dyn Fn(&Owner) -> bool + Send + Sync>,
    /// Names for the runs of attempts.
    pub new_id: Arc<dyn Fn() -> RunId + Send + Sync>,
}

impl RunDriver {
    /// This one.
    pub fn this_process() -> Self {
        Self { owner: this_process(), is_gone: Arc::new(is_gone), new_id: Arc::new(new_run_id) }
    }
}

/// A name for a new run. Names are sorted by time, so that the newest run is the last.
pub fn new_run_id() -> RunId {
    RunId::of_bits(uuid::Uuid::now_v7().as_u128())
}

/// How a process comes to a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunStart {
    /// It opens this row.
    New(Box<Run>),
    /// It takes up a row that is stored.
    Resume {
        /// The row as somebody looked at it. It may have gone on since then.
        run: Box<Run>,
        /// What replaces the terms that are stored.
        anew: Anew,
    },
}

impl RunStart {
    fn row(&self) -> &Run {
        match self {
            Self::New(run) | Self::Resume { run, .. } => run,
        }
    }
}

/// Why a run could not be begun, found or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The record of runs could not be read or written.
    #[error(transparent)]
    Record(#[from] RunStoreError),
    /// The ledger could not be read.
    #[error(transparent)]
    Ledger(#[from] StoreError),
    /// What a killed run left running could not be looked for.
    #[error(transparent)]
    Leftovers(io::Error),
    /// The run does not allow it, because another process drives it for example.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No run is unfinished.
    #[error("there is no run to resume")]
    NothingToResume,
    /// There is no run of this name.
    #[error("there is no run {run}")]
    Unknown {
        /// The name.
        run: RunId,
    },
    /// An attempt is resumed by the run that it is a part of.
    #[error("run {run} is an attempt of {parent}")]
    Attempt {
        /// The attempt.
        run: RunId,
        /// The run that it is a part of.
        parent: RunId,
    },
    /// The run was completed.
    #[error("run {run} has succeeded; there is nothing to resume")]
    Succeeded {
        /// The run.
        run: RunId,
    },
    /// The row vanished since somebody looked at it.
    #[error("run {run} is gone")]
    Gone {
        /// The run.
        run: RunId,
    },
}

impl From<RunError> for Error {
    fn from(why: RunError) -> Self {
        match why {
            RunError::Record(why) => Self::Runs(why),
            RunError::Ledger(why) => Self::Store(why),
            RunError::Leftovers(why) => Self::Io(why),
            other => Self::other(other),
        }
    }
}

/// The record of runs of a root, for a process that begins one.
pub struct RunRecord {
    /// Where the rows are. The agent may be able to write there.
    pub runs: Arc<dyn Runs>,
    /// Terms and usage of each run, kept where the agent does not come across them.
    pub terms: Option<KeptTerms>,
    /// This process.
    pub driver: RunDriver,
    /// The time of the steps of a run.
    pub clock: Arc<dyn Clock>,
}

impl RunRecord {
    /// The stored run of this name if it can be resumed, or else the newest one that can.
    pub fn resumable(runs: &dyn Runs, id: Option<&RunId>) -> Result<Run, RunError> {
        let Some(id) = id else {
            let unfinished = |run: &Run| run.parent.is_none() && run.status != RunStatus::Succeeded;
            return runs.runs()?.into_iter().find(unfinished).ok_or(RunError::NothingToResume);
        };
        let run = runs.run(id)?.ok_or_else(|| RunError::Unknown { run: id.clone() })?;
        match (run.parent.clone(), run.status) {
            (Some(parent), _) => Err(RunError::Attempt { run: run.id, parent }),
            (None, RunStatus::Succeeded) => Err(RunError::Succeeded { run: run.id }),
            (None, _) => Ok(run),
        }
    }

    /// Opens the row or takes it up again, for this process. Rows that a killed process left as running
    /// and that nobody can go on with are closed first. `ledger` is the ledger as it stands.
    pub fn begin(&self, ledger: &Ledger, start: RunStart) -> Result<ActiveRun, RunError> {
        self.close_stale(ledger, start.row())?;
        let runs = self.steady();
        let (row, anew, mut warnings) = match start {
            RunStart::New(run) => (runs.open_run(&run)?, Anew::default(), Vec::new()),
            RunStart::Resume { run, anew } => {
                let row = stored(&*runs, &run.id)?;
                let warnings = self.compare(&*runs, &row)?;
                (row, anew, warnings)
            }
        };
        let pursuit = if row.status.is_over() { Pursuit::Afresh } else { Pursuit::Onward };
        let row = self.take(&*runs, &row, anew)?;
        let kept = self.terms.as_ref().map(|terms| terms.keep(&row));
        warnings.extend(kept.and_then(Result::err));
        let (driver, clock) = (self.driver.clone(), Arc::clone(&self.clock));
        Ok(ActiveRun { row, pursuit, runs, driver, clock, warnings })
    }

    /// The agent can write into the database: what this process knows of a run stays true.
    fn steady(&self) -> Arc<dyn Runs> {
        let runs = SteadyRuns::new(Arc::clone(&self.runs));
        match self.terms.clone() {
            Some(terms) => {
                Arc::new(runs.telling(Box::new(move |id, usage| terms.spent(id, usage))))
            }
            None => Arc::new(runs),
        }
    }

    /// Compares a stored row with its terms as they were kept. What was used counts.
    fn compare(&self, runs: &dyn Runs, row: &Run) -> Result<Vec<RunWarning>, RunError> {
        let Some(terms) = &self.terms else { return Ok(Vec::new()) };
        let warnings = terms.differences(row);
        if let Some(used) = terms.used(&row.id) {
            runs.at_least(&row.id, used)?;
        }
        Ok(warnings)
    }

    /// Makes the row this process's, and returns it as it is stored then.
    fn take(&self, runs: &dyn Runs, row: &Run, anew: Anew) -> Result<Run, RunError> {
        let owner_is_gone = row.lease.as_ref().is_some_and(|lease| self.is_gone(&lease.owner));
        let owner = self.driver.owner.clone();
        let by = Some(owner.clone());
        let lease_seconds = RUN_LEASE_SECONDS;
        let take = Take { owner: Some(owner), lease_seconds, owner_is_gone, anew };
        let of_run = OfRun { run: row.id.clone(), by, step: RunStep::Take(take) };
        runs.apply(self.clock.now(), &of_run)??;
        stored(runs, &row.id)
    }

    /// Closes rows that a killed process left as running: attempts that the ledger does not know as
    /// claimed, and runs over the ledger, whose work the next one takes up.
    fn close_stale(&self, ledger: &Ledger, row: &Run) -> Result<(), RunError> {
        for stale in self.runs.live()? {
            let over = match &stale.task {
                Some(task) => ledger.task(task).is_none_or(|task| {
                    task.status() != Status::InProgress || task.epoch != stale.epoch
                }),
                None => {
                    let lease = stale.lease.as_ref();
                    let driven = lease.is_some_and(|lease| !self.is_gone(&lease.owner));
                    let superseded = stale.objective.is_none() && row.objective.is_none();
                    superseded && stale.id != row.id && !driven
                }
            };
            if over {
                let by = stale.lease.map(|lease| lease.owner);
                let step = RunStep::Stop(StopReason::Crashed);
                self.runs.apply(self.clock.now(), &OfRun { run: stale.id, by, step })??;
            }
        }
        Ok(())
    }

    fn is_gone(&self, owner: &Owner) -> bool {
        (self.driver.is_gone)(owner)
    }
}

/// A run that this process drives.
///
/// [`Project::begin`](super::Project::begin) gives one, and [`Engine::work`](super::Engine::work) or
/// [`Engine::pursue`](super::Engine::pursue) records how it stopped.
pub struct ActiveRun {
    row: Run,
    pursuit: Pursuit,
    pub(super) runs: Arc<dyn Runs>,
    pub(super) driver: RunDriver,
    clock: Arc<dyn Clock>,
    warnings: Vec<RunWarning>,
}

impl ActiveRun {
    /// The row as this process took it.
    pub fn row(&self) -> &Run {
        &self.row
    }

    /// What a person should know about how it began.
    pub fn warnings(&self) -> &[RunWarning] {
        &self.warnings
    }

    /// How an objective is taken up.
    pub fn pursuit(&self) -> Pursuit {
        self.pursuit
    }

    /// The row as it is stored now.
    pub fn stored(&self) -> Result<Run, RunError> {
        stored(&*self.runs, &self.row.id)
    }

    /// Records why the run stopped, unless that is recorded already, and returns the row as it is stored
    /// then.
    pub fn end(&self, reason: StopReason) -> Result<Run, RunError> {
        let or_known = |found: Option<Run>| found.unwrap_or_else(|| self.row.clone());
        let row = or_known(self.runs.run(&self.row.id)?);
        if row.status.is_over() {
            return Ok(row);
        }
        let stop = self.step(RunStep::Stop(reason));
        if let Err(refusal) = self.runs.apply(self.clock.now(), &stop)? {
            tracing::warn!("{refusal}");
        }
        Ok(or_known(self.runs.run(&self.row.id)?))
    }

    /// With warnings from before it began.
    pub(super) fn after(self, earlier: Vec<RunWarning>) -> Self {
        Self { warnings: earlier.into_iter().chain(self.warnings).collect(), ..self }
    }

    /// With another way to the record, which gets the one that there is.
    #[doc(hidden)]
    #[must_use]
    pub fn through(self, way: impl FnOnce(Arc<dyn Runs>) -> Arc<dyn Runs>) -> Self {
        Self { runs: way(self.runs), ..self }
    }

    /// A step of this run, by its driver.
    pub(super) fn step(&self, step: RunStep) -> OfRun {
        OfRun { run: self.row.id.clone(), by: Some(self.driver.owner.clone()), step }
    }
}

fn stored(runs: &dyn Runs, id: &RunId) -> Result<Run, RunError> {
    runs.run(id)?.ok_or_else(|| RunError::Gone { run: id.clone() })
}
