//! The record of runs, for a process that begins one: rows are opened, found and resumed here.

use std::{collections::BTreeSet, io, sync::Arc};

use harness_core::{
    Ledger, Refusal, Run, RunId,
    command::{Anew, OfRun, RunStep, Take},
    run::{Owner, RunLease, RunStatus, StopReason},
    task::Status,
};

use super::{
    ActiveRun, Pursuit,
    run::RunPart,
    terms::{KeptTerms, RunWarning},
};
use crate::{
    clock::Clock,
    error::Error,
    store::{RunStoreError, Runs, SteadyRuns, StoreError, is_gone, this_process},
};

/// The time without a sign of life after which the owner of a run counts as gone, if its process
/// cannot be checked because it is on another machine.
pub const RUN_LEASE_SECONDS: u64 = 300;

/// The process that drives runs.
#[derive(Clone)]
pub struct RunDriver {
    /// Its name in the rows that it takes.
    pub owner: Owner,
    /// Returns whether the process of another row is known to have ended.
    pub is_gone: Arc<dyn Fn(&Owner) -> bool + Send + Sync>,
    /// Generates names for the runs of attempts.
    pub new_id: Arc<dyn Fn() -> RunId + Send + Sync>,
}

impl RunDriver {
    /// Returns the driver for this process.
    pub fn this_process() -> Self {
        Self { owner: this_process(), is_gone: Arc::new(is_gone), new_id: Arc::new(new_run_id) }
    }
}

/// Returns a name for a new run. Names are sorted by time, so that the newest run is the last.
pub fn new_run_id() -> RunId {
    RunId::of_bits(uuid::Uuid::now_v7().as_u128())
}

/// The way in which a process gets its run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunStart {
    /// It opens this row.
    New(Box<Run>),
    /// It resumes a stored row.
    Resume {
        /// The row as it was read earlier. It may have changed since then.
        run: Box<Run>,
        /// The terms that replace the stored ones.
        anew: Anew,
    },
    /// It works for a run that another process drives. The attempts are paid for by that run.
    Join {
        /// The row as it was read earlier.
        run: Box<Run>,
    },
}

impl RunStart {
    fn row(&self) -> &Run {
        match self {
            Self::New(run) | Self::Resume { run, .. } | Self::Join { run } => run,
        }
    }
}

/// The reason why a run could not be begun, found or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The record of runs could not be read or written.
    #[error(transparent)]
    Record(#[from] RunStoreError),
    /// The ledger could not be read.
    #[error(transparent)]
    Ledger(#[from] StoreError),
    /// The processes that a killed run left could not be searched.
    #[error(transparent)]
    Leftovers(io::Error),
    /// The run does not allow it, for example because another process drives it.
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
    /// The row vanished after it was read.
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
    /// The store of the rows. The agent may be able to write there.
    pub runs: Arc<dyn Runs>,
    /// The terms and usage of each run, stored outside of the agent's work tree.
    pub terms: Option<KeptTerms>,
    /// This process.
    pub driver: RunDriver,
    /// The time of the steps of a run.
    pub clock: Arc<dyn Clock>,
}

impl RunRecord {
    /// Returns the stored run of this name if it can be resumed, or else the newest one that can.
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

    /// Returns the runs over the ledger that live processes drive, newest first.
    pub fn driven(runs: &dyn Runs) -> Result<Vec<Run>, RunError> {
        let driven = |run: &Run| {
            let lease = run.lease.as_ref();
            run.objective.is_none()
                && run.parent.is_none()
                && !run.status.is_over()
                && lease.is_some_and(|lease| !is_gone(&lease.owner))
        };
        Ok(runs.runs()?.into_iter().filter(driven).collect())
    }

    /// Opens or resumes the row, for this process. Rows that a killed process left as running, and
    /// that cannot be continued, are closed first. `ledger` is the current ledger.
    pub fn begin(&self, ledger: &Ledger, start: RunStart) -> Result<ActiveRun, RunError> {
        self.close_stale(ledger, start.row())?;
        let runs = self.steady();
        let (driver, clock) = (self.driver.clone(), Arc::clone(&self.clock));
        let (row, anew, mut warnings) = match start {
            RunStart::New(run) => (runs.open_run(&run)?, Anew::default(), Vec::new()),
            RunStart::Resume { run, anew } => {
                let row = stored(&*runs, &run.id)?;
                let warnings = self.compare(&*runs, &row)?;
                (row, anew, warnings)
            }
            RunStart::Join { run } => {
                // A guest may have another agent than the driver.
                let row = Run { agent: run.agent, ..stored(&*runs, &run.id)? };
                let (pursuit, part) = (Pursuit::Onward, RunPart::Guest);
                let warnings = Vec::new();
                let terms = None;
                return Ok(ActiveRun { row, pursuit, part, runs, driver, clock, warnings, terms });
            }
        };
        let pursuit = if row.status.is_over() { Pursuit::Afresh } else { Pursuit::Onward };
        let row = self.take(&*runs, &row, anew)?;
        let kept = self.terms.as_ref().map(|terms| terms.keep(&row));
        warnings.extend(kept.and_then(Result::err));
        let (part, terms) = (RunPart::Driver, self.terms.clone());
        Ok(ActiveRun { row, pursuit, part, runs, driver, clock, warnings, terms })
    }

    /// Returns runs that keep what this process knows, because the agent can write into the
    /// database.
    fn steady(&self) -> Arc<dyn Runs> {
        let runs = SteadyRuns::new(Arc::clone(&self.runs));
        match self.terms.clone() {
            Some(terms) => {
                Arc::new(runs.telling(Box::new(move |id, usage| terms.spent(id, usage))))
            }
            None => Arc::new(runs),
        }
    }

    /// Compares a stored row with its kept terms. Usage that was recorded still counts.
    fn compare(&self, runs: &dyn Runs, row: &Run) -> Result<Vec<RunWarning>, RunError> {
        let Some(terms) = &self.terms else { return Ok(Vec::new()) };
        let warnings = terms.differences(row);
        if let Some(used) = terms.used(&row.id) {
            runs.at_least(&row.id, used)?;
        }
        Ok(warnings)
    }

    /// Makes this process the owner of the row, and returns the row as it is stored then.
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

    /// Closes rows that a killed process left as running: attempts whose task is not claimed in the
    /// ledger, and runs over the ledger, whose work the next one resumes.
    fn close_stale(&self, ledger: &Ledger, row: &Run) -> Result<(), RunError> {
        let live = self.runs.live()?;
        let is_driven = |run: &Run| run.lease.as_ref().is_some_and(|lease| self.is_driven(lease));
        let driven: BTreeSet<RunId> =
            live.iter().filter(|run| is_driven(run)).map(|run| run.id.clone()).collect();
        for stale in live {
            let is_newer = stale.epoch > Some(ledger.epoch());
            let of_driven = stale.parent.as_ref().is_some_and(|parent| driven.contains(parent));
            let driven = driven.contains(&stale.id);
            let over = match &stale.task {
                // Its process ends it. On another machine, it may have been claimed just now.
                Some(_) if driven || is_newer && of_driven => false,
                Some(task) => ledger.task(task).is_none_or(|task| {
                    task.status() != Status::InProgress || task.epoch != stale.epoch
                }),
                None => {
                    let superseded = stale.objective.is_none() && row.objective.is_none();
                    superseded && stale.id != row.id && !driven
                }
            };
            if over {
                let by = stale.lease.map(|lease| lease.owner);
                let step = RunStep::Stop(StopReason::Crashed);
                // A refusal means that another process has taken it meanwhile.
                _ = self.runs.apply(self.clock.now(), &OfRun { run: stale.id, by, step })?;
            }
        }
        Ok(())
    }

    /// Returns whether a process drives a row. One of another machine does until its lease ends.
    fn is_driven(&self, lease: &RunLease) -> bool {
        let is_here = lease.owner.host == self.driver.owner.host;
        !self.is_gone(&lease.owner) && (is_here || lease.expires_at > self.clock.now())
    }

    fn is_gone(&self, owner: &Owner) -> bool {
        (self.driver.is_gone)(owner)
    }
}

pub(super) fn stored(runs: &dyn Runs, id: &RunId) -> Result<Run, RunError> {
    runs.run(id)?.ok_or_else(|| RunError::Gone { run: id.clone() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Mutex;

    use harness_core::{Epoch, TaskId, Timestamp, agent::Usage, ledger::Head, run::RunLimits};

    use super::*;
    use crate::store::MemoryRuns;

    struct At(Timestamp);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            self.0
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_seconds(1_750_000_000)
    }

    fn owner(pid: u32) -> Owner {
        Owner { host: "here".to_owned(), pid, started: "1".to_owned() }
    }

    fn record(runs: &Arc<MemoryRuns>, pid: u32, gone: &[u32]) -> RunRecord {
        let gone = gone.to_vec();
        let count = Mutex::new(100);
        RunRecord {
            runs: runs.clone(),
            terms: None,
            driver: RunDriver {
                owner: owner(pid),
                is_gone: Arc::new(move |owner| gone.contains(&owner.pid)),
                new_id: Arc::new(move || {
                    let mut count = count.lock().unwrap();
                    *count += 1;
                    RunId::of_bits(*count)
                }),
            },
            clock: Arc::new(At(now())),
        }
    }

    fn row(number: u128) -> Box<Run> {
        let limits = RunLimits { max_tokens: Some(100), ..RunLimits::default() };
        Box::new(Run { limits, ..Run::queued(RunId::of_bits(number), now()) })
    }

    fn ledger() -> Ledger {
        Ledger::new(Head::new(now()), Vec::new()).unwrap()
    }

    fn resume(run: &Run) -> RunStart {
        RunStart::Resume { run: Box::new(run.clone()), anew: Anew::default() }
    }

    #[test]
    fn a_run_is_its_drivers_until_that_is_gone_and_ends_once() {
        let runs = Arc::new(MemoryRuns::default());
        let first = record(&runs, 1, &[]).begin(&ledger(), RunStart::New(row(1))).unwrap();
        assert_eq!((first.row().status, first.pursuit()), (RunStatus::Running, Pursuit::Onward));
        let taken = record(&runs, 2, &[]).begin(&ledger(), resume(first.row()));
        assert!(matches!(taken, Err(RunError::Refused(Refusal::RunTaken { .. }))));
        let second = record(&runs, 2, &[1]).begin(&ledger(), resume(first.row())).unwrap();
        // The first process was not gone after all. It cannot end a run that another process
        // drives.
        let row = first.end(StopReason::Complete).unwrap();
        assert_eq!(row.status, RunStatus::Running);
        assert_eq!(second.end(StopReason::Budget).unwrap().stop_reason, Some(StopReason::Budget));
        let again = second.end(StopReason::Crashed).unwrap();
        assert_eq!(again.stop_reason, Some(StopReason::Budget));
        let third = record(&runs, 3, &[]).begin(&ledger(), resume(&again)).unwrap();
        assert_eq!(third.pursuit(), Pursuit::Afresh);
    }

    #[test]
    fn rows_that_nobody_can_go_on_with_are_closed_first() {
        let runs = Arc::new(MemoryRuns::default());
        let begin = |pid, gone: &[u32], number| {
            let begun = record(&runs, pid, gone).begin(&ledger(), RunStart::New(row(number)));
            begun.unwrap()
        };
        let killed = begin(1, &[], 1);
        let (task, epoch) = (TaskId::parse("a").ok(), Some(Epoch(1)));
        let parent = Some(killed.row().id.clone());
        runs.open_run(&Run { task, epoch, parent, ..*row(2) }).unwrap();
        let objective = Some("do it".to_owned());
        runs.open_run(&Run { objective, ..*row(3) }).unwrap();
        let lives = begin(4, &[], 4);
        let status = |number| runs.run(&RunId::of_bits(number)).unwrap().unwrap().status;
        assert_eq!(status(1), RunStatus::Running, "its process lives");
        _ = begin(5, &[1], 5);
        assert_eq!(status(1), RunStatus::Failed, "the run over the ledger of a dead process");
        assert_eq!(status(2), RunStatus::Failed, "an attempt that the ledger does not know");
        assert_eq!(status(3), RunStatus::Queued, "an objective waits for its resume");
        assert_eq!(status(4), lives.row().status);
    }

    #[test]
    fn terms_that_were_edited_are_reported_and_what_was_used_counts() {
        let folder = tempfile::tempdir().unwrap();
        let runs = Arc::new(MemoryRuns::default());
        let terms = KeptTerms::of(folder.path(), &folder.path().join("state"));
        let kept = |pid| RunRecord { terms: Some(terms.clone()), ..record(&runs, pid, &[1]) };
        let first = kept(1).begin(&ledger(), RunStart::New(row(1))).unwrap();
        assert!(first.warnings().is_empty());
        let usage = Usage { input_tokens: 60, ..Usage::default() };
        first.runs.apply(now(), &first.step(RunStep::Spend(usage))).unwrap().unwrap();
        runs.forge(&first.row().id, |run| {
            run.usage = Usage::default();
            run.limits.max_tokens = None;
        });
        let second = kept(2).begin(&ledger(), resume(first.row())).unwrap();
        let warnings: Vec<_> = second.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("max_tokens was \"100\" and is \"none\""), "{warnings:?}");
        assert!(warnings[1].contains("it had used 60 tokens"), "{warnings:?}");
        assert_eq!(second.row().usage.tokens(), 60);
    }

    #[test]
    fn the_newest_unfinished_run_is_resumed_and_no_attempt() {
        let runs = MemoryRuns::default();
        let none = RunRecord::resumable(&runs, None);
        assert!(matches!(none, Err(RunError::NothingToResume)));
        let id = RunId::of_bits;
        runs.open_run(&row(1)).unwrap();
        runs.open_run(&Run { status: RunStatus::Succeeded, ..*row(2) }).unwrap();
        runs.open_run(&Run { parent: Some(id(1)), ..*row(3) }).unwrap();
        assert_eq!(RunRecord::resumable(&runs, None).unwrap().id, id(1));
        assert_eq!(RunRecord::resumable(&runs, Some(&id(1))).unwrap().id, id(1));
        let refused = |number| RunRecord::resumable(&runs, Some(&id(number))).unwrap_err();
        assert!(matches!(refused(2), RunError::Succeeded { .. }));
        assert!(matches!(refused(3), RunError::Attempt { .. }));
        assert!(matches!(refused(4), RunError::Unknown { .. }));
    }
}
