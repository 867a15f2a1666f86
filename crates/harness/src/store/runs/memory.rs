//! The record of runs in memory.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use harness_core::{
    Epoch, Refusal, Reply, TaskId, Timestamp,
    agent::Usage,
    command::{OfRun, RunView},
    notify::{OutboxStep, Outgoing},
    run::{Iteration, Run, RunId, RunLimits},
};

use super::{RunStoreError, Runs, saturated};

/// A record of runs that is lost with the process, for tests and the simulator. It behaves like
/// [`RunStore`](super::RunStore); one suite tests both.
#[derive(Debug, Default)]
pub struct MemoryRuns {
    rows: Mutex<BTreeMap<RunId, Kept>>,
    outbox: Mutex<Vec<Outgoing>>,
}

#[derive(Debug, Clone)]
struct Kept {
    run: Run,
    iterations: Vec<Iteration>,
}

impl MemoryRuns {
    /// Changes a row without a command, as any program of the user can.
    #[doc(hidden)]
    pub fn forge(&self, id: &RunId, change: impl FnOnce(&mut Run)) {
        if let Some(kept) = self.rows().get_mut(id) {
            change(&mut kept.run);
        }
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<RunId, Kept>> {
        // A change is applied as a whole after the last operation that could panic.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn messages(&self) -> MutexGuard<'_, Vec<Outgoing>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runs for MemoryRuns {
    fn open_run(&self, run: &Run) -> Result<Run, RunStoreError> {
        let run = storable(run.clone());
        let mut rows = self.rows();
        if let (Some(task), Some(epoch)) = (&run.task, run.epoch) {
            let same = |kept: &&Kept| {
                kept.run.task.as_ref() == Some(task) && kept.run.epoch == Some(epoch)
            };
            if let Some(kept) = rows.values().find(same) {
                return Ok(kept.run.clone());
            }
        }
        if rows.contains_key(&run.id) {
            return Err(RunStoreError::Exists { run: run.id });
        }
        if let Some(parent) = run.parent.clone().filter(|parent| !rows.contains_key(parent)) {
            return Err(RunStoreError::NoParent { run: run.id, parent });
        }
        rows.insert(run.id.clone(), Kept { run: run.clone(), iterations: Vec::new() });
        Ok(run)
    }

    fn apply(
        &self,
        now: Timestamp,
        command: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError> {
        let mut rows = self.rows();
        let Some(kept) = rows.get(&command.run) else {
            return Ok(Err(Refusal::RunNotFound { run: command.run.clone() }));
        };
        let parent = kept.run.parent.as_ref().and_then(|id| rows.get(id));
        let view = RunView {
            run: kept.run.clone(),
            last: kept.iterations.last().cloned(),
            parent: parent.map(|kept| kept.run.clone()),
        };
        let change = match command.decide(&view, now) {
            Ok(change) => change,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for run in [Some(change.run), change.parent].into_iter().flatten() {
            if let Some(kept) = rows.get_mut(&run.id) {
                kept.run = storable(run);
            }
        }
        if let Some(mut iteration) = change.iteration
            && let Some(kept) = rows.get_mut(&command.run)
        {
            iteration.usage = storable_usage(iteration.usage);
            kept.iterations.retain(|known| known.number != iteration.number);
            kept.iterations.push(iteration);
        }
        Ok(Ok(change.reply))
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError> {
        Ok(self.rows().get(id).map(|kept| kept.run.clone()))
    }

    fn iterations(&self, id: &RunId) -> Result<Vec<Iteration>, RunStoreError> {
        Ok(self.rows().get(id).map(|kept| kept.iterations.clone()).unwrap_or_default())
    }

    fn attempt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Run>, RunStoreError> {
        let same = |run: &&Run| run.task.as_ref() == Some(task) && run.epoch == Some(epoch);
        Ok(self.rows().values().map(|kept| &kept.run).find(same).cloned())
    }

    fn runs(&self) -> Result<Vec<Run>, RunStoreError> {
        let mut runs: Vec<Run> = self.rows().values().map(|kept| kept.run.clone()).collect();
        runs.sort_by_key(|run| Reverse((run.created_at, run.id.clone())));
        Ok(runs)
    }

    fn at_least(&self, id: &RunId, usage: Usage) -> Result<(), RunStoreError> {
        if let Some(kept) = self.rows().get_mut(id) {
            kept.run.usage = storable_usage(kept.run.usage.at_least(usage));
        }
        Ok(())
    }

    fn outbox(&self) -> Result<Vec<Outgoing>, RunStoreError> {
        Ok(self.messages().clone())
    }

    fn post(&self, now: Timestamp, step: &OutboxStep) -> Result<Vec<Outgoing>, RunStoreError> {
        let mut rows = self.messages();
        let change = step.decide(&rows, now);
        for row in change.put {
            match rows.iter_mut().find(|known| known.key() == row.key()) {
                Some(known) => *known = row,
                None => rows.push(row),
            }
        }
        rows.retain(|row| !change.removed.contains(&row.key()));
        Ok(change.taken)
    }
}

/// Returns the run with the limits of a database.
pub(in crate::store) fn storable(run: Run) -> Run {
    let limits = RunLimits {
        max_tokens: run.limits.max_tokens.map(saturated),
        max_duration_seconds: run.limits.max_duration_seconds.map(saturated),
        ..run.limits
    };
    let epoch = run.epoch.map(|epoch| Epoch(saturated(epoch.0)));
    Run { limits, epoch, usage: storable_usage(run.usage), ..run }
}

pub(in crate::store) fn storable_usage(usage: Usage) -> Usage {
    Usage {
        input_tokens: saturated(usage.input_tokens),
        output_tokens: saturated(usage.output_tokens),
        ..usage
    }
}
