//! The record of runs for the process that drives a run. Any program of this user can edit the
//! database, including the agent. Such an edit must not give a run more than it was started with.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness_core::{
    Epoch, Refusal, Reply, TaskId, Timestamp,
    agent::Usage,
    command::{OfRun, RunStep},
    notify::{OutboxStep, Outgoing},
    run::{Allowance, Iteration, Run, RunId, RunStatus},
};

use super::{RunStoreError, Runs};

/// A wrapper that passes everything on and remembers. Usage never decreases. The terms of a run
/// (limits, deadline, verify command, promise) are those with which this process took it up, and
/// only a budget that a person changes through this process replaces them.
pub struct SteadyRuns {
    rows: Arc<dyn Runs>,
    known: Mutex<HashMap<RunId, Run>>,
    spent: Option<Box<Spent>>,
}

/// Receives the total usage of a run after each step that used something.
pub type Spent = dyn Fn(&RunId, Usage) + Send + Sync;

impl SteadyRuns {
    /// Creates a wrapper without any memory.
    pub fn new(rows: Arc<dyn Runs>) -> Self {
        Self { rows, known: Mutex::default(), spent: None }
    }

    /// Stores the usage outside of the database too, for the next process.
    #[must_use]
    pub fn telling(self, spent: Box<Spent>) -> Self {
        Self { spent: Some(spent), ..self }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<RunId, Run>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current row, corrected by what is known of it.
    fn steady(&self, row: Run) -> Run {
        let mut known = self.known();
        let Some(seen) = known.get_mut(&row.id) else { return row };
        seen.usage = seen.usage.at_least(row.usage);
        Run {
            usage: seen.usage,
            limits: seen.limits,
            deadline: seen.deadline,
            verify: seen.verify.clone(),
            completion_promise: seen.completion_promise.clone(),
            ..row
        }
    }

    /// Records the terms of a run that was taken up.
    fn taken(&self, id: &RunId) -> Result<(), RunStoreError> {
        if let Some(row) = self.rows.run(id)? {
            let mut known = self.known();
            let used = known.get(id).map(|seen| seen.usage).unwrap_or_default();
            let usage = used.at_least(row.usage);
            known.insert(id.clone(), Run { usage, ..row });
        }
        Ok(())
    }

    /// Returns the usage of the run that pays: the known value plus this, or the stored value if it
    /// is larger.
    fn spent(&self, id: &RunId, usage: Usage, stored: Usage) -> Usage {
        let (payer, used) = self.charge(id, usage, stored);
        if let Some(spent) = &self.spent {
            spent(&payer, used);
        }
        used
    }

    /// Returns the run that pays, and its total usage.
    fn charge(&self, id: &RunId, usage: Usage, stored: Usage) -> (RunId, Usage) {
        let mut known = self.known();
        let parent = known.get_mut(id).and_then(|run| {
            run.usage += usage;
            run.parent.clone()
        });
        let payer = parent.filter(|parent| known.contains_key(parent));
        let pays = payer.as_ref().unwrap_or(id).clone();
        let Some(row) = known.get_mut(&pays) else { return (pays, stored) };
        if payer.is_some() {
            row.usage += usage;
        }
        row.usage = row.usage.at_least(stored);
        (pays, row.usage)
    }

    /// Writes back usage that a row has lost since it was last seen.
    fn raise(&self, of_run: &OfRun) -> Result<(), RunStoreError> {
        let Some(row) = self.rows.run(&of_run.run)? else { return Ok(()) };
        for id in [Some(of_run.run.clone()), row.parent].into_iter().flatten() {
            let seen = self.known().get(&id).map(|seen| seen.usage);
            if let Some(usage) = seen {
                self.rows.at_least(&id, usage)?;
            }
        }
        Ok(())
    }
}

impl Runs for SteadyRuns {
    fn open_run(&self, run: &Run) -> Result<Run, RunStoreError> {
        let found = self.rows.open_run(run)?;
        if found.id == run.id && run.status == RunStatus::Running {
            // It is new, and taken up from the beginning.
            self.known().insert(run.id.clone(), run.clone());
        }
        Ok(found)
    }

    fn apply(
        &self,
        now: Timestamp,
        of_run: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError> {
        if matches!(of_run.step, RunStep::Spend(_) | RunStep::Stop(_)) {
            self.raise(of_run)?;
        }
        let reply = self.rows.apply(now, of_run)?;
        match (&of_run.step, reply) {
            (RunStep::Take(_), Ok(reply)) => {
                self.taken(&of_run.run)?;
                Ok(Ok(reply))
            }
            (RunStep::Allow(budget), Ok(reply)) => {
                if let Some(seen) = self.known().get_mut(&of_run.run) {
                    let Allowance { limits, deadline } = budget.applied(seen.allowance(), now);
                    (seen.limits, seen.deadline) = (limits, deadline);
                }
                Ok(Ok(reply))
            }
            (RunStep::Spend(usage), Ok(Reply::Spent(stored))) => {
                let mut usage = *usage;
                usage.cost_usd = usage.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0);
                Ok(Ok(Reply::Spent(self.spent(&of_run.run, usage, stored))))
            }
            (_, reply) => Ok(reply),
        }
    }

    fn is_flushed(&self) -> bool {
        self.rows.is_flushed()
    }

    fn flush(&self) -> Result<(), RunStoreError> {
        self.rows.flush()
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError> {
        Ok(self.rows.run(id)?.map(|row| self.steady(row)))
    }

    fn iterations(&self, id: &RunId) -> Result<Vec<Iteration>, RunStoreError> {
        self.rows.iterations(id)
    }

    fn attempt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Run>, RunStoreError> {
        Ok(self.rows.attempt(task, epoch)?.map(|row| self.steady(row)))
    }

    fn runs(&self) -> Result<Vec<Run>, RunStoreError> {
        self.rows.runs()
    }

    fn at_least(&self, id: &RunId, usage: Usage) -> Result<(), RunStoreError> {
        self.rows.at_least(id, usage)
    }

    fn outbox(&self) -> Result<Vec<Outgoing>, RunStoreError> {
        self.rows.outbox()
    }

    fn post(&self, now: Timestamp, step: &OutboxStep) -> Result<Vec<Outgoing>, RunStoreError> {
        self.rows.post(now, step)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use harness_core::{
        command::{Anew, Take},
        run::RunLimits,
    };

    use super::{super::MemoryRuns, *};

    fn dollars(cost: f64) -> Usage {
        Usage { cost_usd: Some(cost), ..Usage::default() }
    }

    /// A record that an agent edits: the row that it returns for one run is forged.
    struct Edited {
        rows: MemoryRuns,
        edit: Mutex<Option<Run>>,
    }

    impl Runs for Edited {
        fn open_run(&self, run: &Run) -> Result<Run, RunStoreError> {
            self.rows.open_run(run)
        }

        fn apply(
            &self,
            now: Timestamp,
            of_run: &OfRun,
        ) -> Result<Result<Reply, Refusal>, RunStoreError> {
            let reply = self.rows.apply(now, of_run)?;
            let edited = self.edit.lock().unwrap().is_some();
            Ok(reply.map(|reply| match reply {
                Reply::Spent(_) if edited => Reply::Spent(Usage::default()),
                reply => reply,
            }))
        }

        fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError> {
            let edit = self.edit.lock().unwrap().clone();
            Ok(edit.filter(|run| run.id == *id).or(self.rows.run(id)?))
        }

        fn iterations(&self, id: &RunId) -> Result<Vec<Iteration>, RunStoreError> {
            self.rows.iterations(id)
        }

        fn attempt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Run>, RunStoreError> {
            self.rows.attempt(task, epoch)
        }

        fn runs(&self) -> Result<Vec<Run>, RunStoreError> {
            self.rows.runs()
        }

        fn at_least(&self, id: &RunId, usage: Usage) -> Result<(), RunStoreError> {
            self.rows.at_least(id, usage)
        }

        fn outbox(&self) -> Result<Vec<Outgoing>, RunStoreError> {
            self.rows.outbox()
        }

        fn post(&self, now: Timestamp, step: &OutboxStep) -> Result<Vec<Outgoing>, RunStoreError> {
            self.rows.post(now, step)
        }
    }

    #[test]
    fn x_m7_what_was_used_never_falls_and_terms_stay() {
        let now = Timestamp::from_seconds(0);
        let id = RunId::of_bits(1);
        let limits = RunLimits { max_cost_usd: Some(2.5), ..RunLimits::default() };
        let run = Run { limits, verify: Some("make test".into()), ..Run::queued(id.clone(), now) };
        let edited = Arc::new(Edited { rows: MemoryRuns::default(), edit: Mutex::default() });
        edited.open_run(&run).unwrap();
        let runs = SteadyRuns::new(Arc::clone(&edited) as Arc<dyn Runs>);
        let apply = |step| {
            let of_run = OfRun { run: id.clone(), by: None, step };
            runs.apply(now, &of_run).unwrap().unwrap()
        };
        apply(RunStep::Take(Take { anew: Anew::default(), ..Take::default() }));
        assert_eq!(apply(RunStep::Spend(dollars(1.0))), Reply::Spent(dollars(1.0)));
        let forged = RunLimits { max_cost_usd: Some(100.0), ..limits };
        let forged = Run { usage: Usage::default(), limits: forged, verify: None, ..run.clone() };
        *edited.edit.lock().unwrap() = Some(forged);
        let seen = runs.run(&id).unwrap().unwrap();
        assert_eq!((seen.usage, seen.limits), (dollars(1.0), limits));
        assert_eq!(seen.verify.as_deref(), Some("make test"));
        assert_eq!(apply(RunStep::Spend(dollars(1.0))), Reply::Spent(dollars(2.0)));
    }
}
