//! The record of runs for the process that drives a run. Any program of this user can edit the
//! database, including the agent. Such an edit must not give a run more than it was started with.
//!
//! While the record cannot be reached, agents go on. Their usage is charged to the rows in memory, so that
//! the budget holds, and is sent when the record is back, each step once.

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
use uuid::Uuid;

use super::{
    RunStoreError, Runs,
    deferred::{DeferredStep, DeferredSteps, Sent},
};

/// A wrapper that passes everything on and remembers. Usage never decreases. The terms of a run
/// (limits, deadline, verify command, promise) are those with which this process took it up, and
/// only a budget that a person changes through this process replaces them.
pub struct SteadyRuns {
    rows: Arc<dyn Runs>,
    known: Mutex<Known>,
    /// Held while steps that waited are sent, so that each is sent by one caller at a time.
    sending: Mutex<()>,
    spent: Option<Box<Spent>>,
}

/// Receives the total usage of a run after each step that used something.
pub type Spent = dyn Fn(&RunId, Usage) + Send + Sync;

impl SteadyRuns {
    /// Creates a wrapper without any memory.
    pub fn new(rows: Arc<dyn Runs>) -> Self {
        Self { rows, known: Mutex::default(), sending: Mutex::default(), spent: None }
    }

    /// Stores the usage outside of the database too, for the next process.
    #[must_use]
    pub fn telling(mut self, spent: Box<Spent>) -> Self {
        self.spent = Some(spent);
        self
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the terms of a run that was taken up.
    fn taken(&self, id: &RunId, known: &mut Known) -> Result<(), RunStoreError> {
        if let Some(row) = self.rows.run(id)? {
            let used = known.rows.get(id).map(|seen| seen.usage).unwrap_or_default();
            let usage = used.at_least(row.usage);
            known.rows.insert(id.clone(), Run { usage, ..row });
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
        let id = Uuid::now_v7();
        if !known.deferred.is_empty()
            && let Some(noted) = defer(&mut known, DeferredStep::new(id, now, of_run, Sent::Never))
        {
            return Ok(Ok(noted));
        }
        let applied = self.applied(id, now, of_run, &known);
        let reply = match applied {
            Ok(Ok(reply)) => reply,
            Ok(Err(refusal)) => return Ok(Err(refusal)),
            Err(why) if why.is_unreachable() || why.is_in_doubt() => {
                let sent = if why.is_in_doubt() { Sent::Perhaps } else { Sent::Never };
                let noted = defer(&mut known, DeferredStep::new(id, now, of_run, sent));
                return noted.map(Ok).ok_or(why);
            }
            Err(why) => return Err(why),
        };
        Ok(Ok(match (&of_run.step, reply) {
            (RunStep::Take(_), reply) => {
                self.taken(&of_run.run, &mut known)?;
                Noted::Reply(reply)
            }
            (RunStep::Allow(budget), reply) => {
                if let Some(seen) = known.rows.get_mut(&of_run.run) {
                    let Allowance { limits, deadline } = budget.applied(seen.allowance(), now);
                    (seen.limits, seen.deadline) = (limits, deadline);
                }
                Noted::Reply(reply)
            }
            (RunStep::Spend(usage), Reply::Spent(stored)) => {
                let (payer, used) =
                    charge_stored(&mut known, &of_run.run, countable(*usage), stored);
                Noted::Spent { payer, used }
            }
            (_, reply) => Noted::Reply(reply),
        }))
    }

    /// Carries out a step. One that can be deferred has a name, so that it can be sent again.
    fn applied(
        &self,
        id: Uuid,
        now: Timestamp,
        of_run: &OfRun,
        known: &Known,
    ) -> Result<Result<Reply, Refusal>, RunStoreError> {
        // The memory of a run whose usage waits has more than the row, which is not lost there.
        if matches!(of_run.step, RunStep::Spend(_) | RunStep::Stop(_)) && known.deferred.is_empty()
        {
            self.raise(of_run, &known.rows)?;
        }
        match of_run.step {
            RunStep::Spend(_) | RunStep::Session(_) => self.rows.apply_once(id, now, of_run),
            _ => self.rows.apply(now, of_run),
        }
    }

    /// Sends the steps that wait, in their order. It blocks.
    fn send_deferred(&self) -> Result<(), RunStoreError> {
        if self.known().deferred.is_empty() {
            return Ok(());
        }
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let next = self.known().deferred.next_to_send();
            let Some(DeferredStep { id, now, of_run, .. }) = next else { return Ok(()) };
            // Whether it was made or not, it can be sent again, and nothing after it was done.
            let sent =
                self.rows.apply_once(id, now, &of_run).map_err(RunStoreError::into_unreachable);
            if let Err(refusal) = sent? {
                tracing::warn!(%refusal, "what an agent used while the database was away is lost");
            }
            self.known().deferred.is_done(id);
        }
    }

    /// Writes back usage that a row has lost since it was last seen.
    fn raise(&self, of_run: &OfRun, known: &KnownRows) -> Result<(), RunStoreError> {
        let Some(row) = self.rows.run(&of_run.run)? else { return Ok(()) };
        for id in [Some(of_run.run.clone()), row.parent].into_iter().flatten() {
            if let Some(seen) = known.get(&id) {
                self.rows.at_least(&id, seen.usage)?;
            }
        }
        Ok(())
    }
}

/// What this process knows.
#[derive(Default)]
struct Known {
    rows: KnownRows,
    /// The usage of runs that other processes drive and that pay for attempts of this one.
    payers: HashMap<RunId, Usage>,
    deferred: DeferredSteps,
}

type KnownRows = HashMap<RunId, Run>;

impl DeferredStep {
    fn new(id: Uuid, now: Timestamp, of_run: &OfRun, sent: Sent) -> Self {
        let mut of_run = of_run.clone();
        if let RunStep::Spend(usage) = &mut of_run.step {
            *usage = countable(*usage);
        }
        Self { id, now, of_run, sent }
    }
}

/// Answers a step without the record, if it does not have to be durable now. Usage is charged to what is
/// known, and a sign of life is not kept, because another one follows.
fn defer(known: &mut Known, step: DeferredStep) -> Option<Noted> {
    match step.of_run.step {
        RunStep::Spend(usage) => {
            let (payer, used) = charge_known(known, &step.of_run.run, usage);
            known.deferred.push(step);
            Some(Noted::Spent { payer, used })
        }
        RunStep::Session(_) => {
            known.deferred.push(step);
            Some(Noted::Reply(Reply::Noted))
        }
        RunStep::Beat { .. } => Some(Noted::Reply(Reply::Noted)),
        RunStep::Take(_)
        | RunStep::Begin { .. }
        | RunStep::End { .. }
        | RunStep::WaitUntil(_)
        | RunStep::AskHuman(_)
        | RunStep::Allow(_)
        | RunStep::Stop(_) => None,
    }
}

/// Returns the run that pays, and its usage, of which the record has stored `stored`.
fn charge_stored(known: &mut Known, id: &RunId, usage: Usage, stored: Usage) -> (RunId, Usage) {
    let parent = known.rows.get(id).and_then(|run| run.parent.clone());
    match parent.filter(|parent| !known.rows.contains_key(parent)) {
        None => charge(&mut known.rows, id, usage, stored),
        Some(payer) => {
            // What is stored is the usage of a run that another process drives.
            _ = charge(&mut known.rows, id, usage, Usage::default());
            let used = known.payers.entry(payer.clone()).or_default();
            *used = used.at_least(stored);
            (payer, *used)
        }
    }
}

/// Returns the run that pays, and its usage as far as it is known with this.
fn charge_known(known: &mut Known, id: &RunId, usage: Usage) -> (RunId, Usage) {
    let parent = known.rows.get(id).and_then(|run| run.parent.clone());
    match parent.filter(|parent| !known.rows.contains_key(parent)) {
        None => charge(&mut known.rows, id, usage, usage),
        Some(payer) => {
            _ = charge(&mut known.rows, id, usage, Usage::default());
            let used = known.payers.entry(payer.clone()).or_default();
            *used += usage;
            (payer, *used)
        }
    }
}

/// Returns what counts of a usage. The value comes from an agent.
fn countable(usage: Usage) -> Usage {
    let cost_usd = usage.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0);
    Usage { cost_usd, ..usage }
}

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
fn charge(known: &mut KnownRows, id: &RunId, usage: Usage, stored: Usage) -> (RunId, Usage) {
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
    let Some(seen) = known.rows.get_mut(&row.id) else {
        if row.parent.is_none() {
            let used = known.payers.entry(row.id.clone()).or_default();
            *used = used.at_least(row.usage);
        }
        return row;
    };
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
            self.known().rows.insert(run.id.clone(), run.clone());
        }
        Ok(found)
    }

    fn apply(
        &self,
        now: Timestamp,
        of_run: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError> {
        match of_run.step {
            // They are answered without the record, if need be.
            RunStep::Spend(_) | RunStep::Session(_) => {}
            // It comes at intervals, so that it also sends what waits.
            RunStep::Beat { .. } => _ = self.send_deferred(),
            _ => self.send_deferred()?,
        }
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
        self.known().deferred.is_empty() && self.rows.is_flushed()
    }

    fn flush(&self) -> Result<(), RunStoreError> {
        self.send_deferred()?;
        self.rows.flush()
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError> {
        // A reader sees what this process has used in any case, because the memory has it.
        _ = self.send_deferred();
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

impl Drop for SteadyRuns {
    fn drop(&mut self) {
        let lost = self.known().deferred.usage();
        if lost != Usage::default() {
            let (tokens, cost_usd) = (lost.tokens(), lost.cost_usd.unwrap_or_default());
            tracing::warn!(tokens, cost_usd, "what agents used could not be recorded");
        }
    }
}

#[cfg(test)]
mod tests;
