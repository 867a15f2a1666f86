#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use harness_core::{
    command::{Anew, Take},
    run::{RunLimits, StopReason},
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
    /// Whether it cannot be reached.
    away: AtomicBool,
    /// Called after a change was made and before it is answered.
    made: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Edited {
    #[cfg(feature = "postgres")]
    fn reached(&self) -> Result<(), RunStoreError> {
        if !self.away.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (server, why) = ("db:5432/work".to_owned(), "no answer".to_owned());
        Err(crate::store::postgres::DatabaseError::Unreachable { server, why }.into())
    }

    #[cfg(not(feature = "postgres"))]
    fn reached(&self) -> Result<(), RunStoreError> {
        assert!(!self.away.load(Ordering::Relaxed), "files are always reached");
        Ok(())
    }
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
        self.reached()?;
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
        self.reached()?;
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

/// The budget of a run holds while its record is away, and everything is recorded when it is back.
#[cfg(feature = "postgres")]
#[test]
fn usage_is_charged_to_what_is_known_while_the_record_is_away() {
    let (now, parent, id) = (Timestamp::from_seconds(0), RunId::of_bits(1), RunId::of_bits(2));
    let rows = Arc::new(Edited::default());
    rows.open_run(&Run { usage: dollars(1.0), ..Run::queued(parent.clone(), now) }).unwrap();
    let attempt = Run {
        parent: Some(parent.clone()),
        status: RunStatus::Running,
        ..Run::queued(id.clone(), now)
    };
    let guest = SteadyRuns::new(Arc::clone(&rows) as Arc<dyn Runs>);
    guest.open_run(&attempt).unwrap();
    assert_eq!(guest.run(&parent).unwrap().unwrap().usage, dollars(1.0));
    let apply = |step| guest.apply(now, &OfRun { run: id.clone(), by: None, step });
    let spend = |cost| apply(RunStep::Spend(dollars(cost))).unwrap().unwrap();
    rows.away.store(true, Ordering::Relaxed);
    // Another process drives the run that pays, so that this one knows only what it has read.
    assert_eq!(spend(2.0), Reply::Spent(dollars(3.0)));
    assert_eq!(apply(RunStep::Beat { lease_seconds: 9 }).unwrap(), Ok(Reply::Noted));
    assert_eq!(apply(RunStep::Session("s".to_owned())).unwrap(), Ok(Reply::Noted));
    assert_eq!(spend(4.0), Reply::Spent(dollars(7.0)));
    assert!(apply(RunStep::Stop(StopReason::Budget)).unwrap_err().is_unreachable());
    rows.away.store(false, Ordering::Relaxed);
    apply(RunStep::Stop(StopReason::Budget)).unwrap().unwrap();
    assert!(guest.is_flushed());
    let stored = |id| rows.rows.run(id).unwrap().unwrap();
    assert_eq!((stored(&parent).usage, stored(&id).usage), (dollars(7.0), dollars(6.0)));
    assert_eq!(stored(&id).provider_session_id.as_deref(), Some("s"));
}
