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
    known: Mutex<Known>,
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

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the terms of a run that was taken up.
    fn taken(&self, id: &RunId, known: &mut Known) -> Result<(), RunStoreError> {
        if let Some(row) = self.rows.run(id)? {
            let used = known.get(id).map(|seen| seen.usage).unwrap_or_default();
            let usage = used.at_least(row.usage);
            known.insert(id.clone(), Run { usage, ..row });
        }
        Ok(())
    }

    /// Carries out a step and remembers what it changed. The lock is held from the change of the row
    /// to that of the memory. A reader between the two would take the new usage into the memory, and
    /// it would be counted a second time.
    fn remembering(
        &self,
        now: Timestamp,
        of_run: &OfRun,
    ) -> Result<Result<Noted, Refusal>, RunStoreError> {
        let mut known = self.known();
        if matches!(of_run.step, RunStep::Spend(_) | RunStep::Stop(_)) {
            self.raise(of_run, &known)?;
        }
        let reply = match self.rows.apply(now, of_run)? {
            Ok(reply) => reply,
            Err(refusal) => return Ok(Err(refusal)),
        };
        Ok(Ok(match (&of_run.step, reply) {
            (RunStep::Take(_), reply) => {
                self.taken(&of_run.run, &mut known)?;
                Noted::Reply(reply)
            }
            (RunStep::Allow(budget), reply) => {
                if let Some(seen) = known.get_mut(&of_run.run) {
                    let Allowance { limits, deadline } = budget.applied(seen.allowance(), now);
                    (seen.limits, seen.deadline) = (limits, deadline);
                }
                Noted::Reply(reply)
            }
            (RunStep::Spend(usage), Reply::Spent(stored)) => {
                let mut usage = *usage;
                usage.cost_usd = usage.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0);
                let (payer, used) = charge(&mut known, &of_run.run, usage, stored);
                Noted::Spent { payer, used }
            }
            (_, reply) => Noted::Reply(reply),
        }))
    }

    /// Writes back usage that a row has lost since it was last seen.
    fn raise(&self, of_run: &OfRun, known: &Known) -> Result<(), RunStoreError> {
        let Some(row) = self.rows.run(&of_run.run)? else { return Ok(()) };
        for id in [Some(of_run.run.clone()), row.parent].into_iter().flatten() {
            if let Some(seen) = known.get(&id) {
                self.rows.at_least(&id, seen.usage)?;
            }
        }
        Ok(())
    }
}

type Known = HashMap<RunId, Run>;

/// The result of a step.
enum Noted {
    Reply(Reply),
    Spent {
        /// The run that pays.
        payer: RunId,
        /// Its total usage.
        used: Usage,
    },
}

/// Returns the run that pays, and its total usage: the known value plus this, or the stored value if
/// it is larger.
fn charge(known: &mut Known, id: &RunId, usage: Usage, stored: Usage) -> (RunId, Usage) {
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

/// Returns the row, corrected by what is known of it.
fn steady(known: &mut Known, row: Run) -> Run {
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
        Ok(self.remembering(now, of_run)?.map(|noted| match noted {
            Noted::Reply(reply) => reply,
            Noted::Spent { payer, used } => {
                if let Some(spent) = &self.spent {
                    spent(&payer, used);
                }
                Reply::Spent(used)
            }
        }))
    }

    fn is_flushed(&self) -> bool {
        self.rows.is_flushed()
    }

    fn flush(&self) -> Result<(), RunStoreError> {
        self.rows.flush()
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError> {
        let mut known = self.known();
        Ok(self.rows.run(id)?.map(|row| steady(&mut known, row)))
    }

    fn iterations(&self, id: &RunId) -> Result<Vec<Iteration>, RunStoreError> {
        self.rows.iterations(id)
    }

    fn attempt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Run>, RunStoreError> {
        let mut known = self.known();
        Ok(self.rows.attempt(task, epoch)?.map(|row| steady(&mut known, row)))
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

    use std::{sync::mpsc, thread};

    use harness_core::{
        command::{Anew, Take},
        run::RunLimits,
    };

    use super::{super::MemoryRuns, *};

    fn dollars(cost: f64) -> Usage {
        Usage { cost_usd: Some(cost), ..Usage::default() }
    }

    /// A record that an agent edits: the row that it returns for one run is forged.
    #[derive(Default)]
    struct Edited {
        rows: MemoryRuns,
        edit: Mutex<Option<Run>>,
        /// Called after a change was made and before it is answered.
        made: Mutex<Option<Box<dyn Fn() + Send>>>,
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
            if let Some(made) = &*self.made.lock().unwrap() {
                made();
            }
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
        let edited = Arc::new(Edited::default());
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

    /// A reader that comes between the change of the row and its answer must not have the same usage
    /// counted twice.
    #[test]
    fn usage_is_counted_once_although_others_read_meanwhile() {
        let (now, id) = (Timestamp::from_seconds(0), RunId::of_bits(1));
        let rows = Arc::new(Edited::default());
        rows.open_run(&Run::queued(id.clone(), now)).unwrap();
        let runs = Arc::new(SteadyRuns::new(Arc::clone(&rows) as Arc<dyn Runs>));
        let apply = |step| {
            let of_run = OfRun { run: id.clone(), by: None, step };
            runs.apply(now, &of_run).unwrap().unwrap()
        };
        apply(RunStep::Take(Take::default()));
        let (readers, of_readers) = mpsc::channel();
        let (reads, reader) = (Arc::clone(&runs), id.clone());
        *rows.made.lock().unwrap() = Some(Box::new(move || {
            let (reads, id) = (Arc::clone(&reads), reader.clone());
            let reader = thread::spawn(move || reads.run(&id).unwrap().unwrap().usage);
            // It may read at once, or it has to wait for the answer.
            (0..10_000).take_while(|_| !reader.is_finished()).for_each(|_| thread::yield_now());
            readers.send(reader).unwrap();
        }));
        assert_eq!(apply(RunStep::Spend(dollars(1.0))), Reply::Spent(dollars(1.0)));
        assert_eq!(apply(RunStep::Spend(dollars(1.0))), Reply::Spent(dollars(2.0)));
        *rows.made.lock().unwrap() = None;
        assert_eq!(apply(RunStep::Spend(dollars(1.0))), Reply::Spent(dollars(3.0)));
        let seen: Vec<_> = of_readers.try_iter().map(|reader| reader.join().unwrap()).collect();
        assert_eq!(seen.len(), 2);
        assert_eq!(rows.rows.run(&id).unwrap().unwrap().usage, dollars(3.0));
    }
}
