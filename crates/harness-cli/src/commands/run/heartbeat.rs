//! Reports the workers of this process to the other machines, and lets those leave that were asked to.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    thread::{self, JoinHandle},
    time::Duration,
};

use harness::{
    core::WorkerId,
    flows::SharedWork,
    project::Backing,
    store::{
        Presence, RegisteredWorker, WorkerRecord, Writer,
        postgres::{Database, FleetWorker, WorkerState},
    },
};

use crate::{failure::Result, paint::warn};

/// The interval of reports.
const EVERY: Duration = Duration::from_secs(10);

/// Reports until it is dropped. The workers are removed from the list then.
pub(super) struct Heartbeat {
    stopped: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Starts to report, if the ledger is in a database.
    pub(super) fn start(
        backing: &Backing,
        workers: Vec<WorkerRecord>,
        writer: &Arc<Writer>,
        shared: SharedWork,
    ) -> Result<Option<Self>> {
        let Some(database) = backing.open()? else { return Ok(None) };
        let stopped = Arc::new((Mutex::new(false), Condvar::new()));
        let (theirs, writer) = (Arc::clone(&stopped), Arc::downgrade(writer));
        let thread =
            thread::Builder::new().name("harness-heartbeat".to_owned()).spawn(move || {
                let mut is_quiet = false;
                while !has_stopped(&theirs, if is_quiet { EVERY } else { Duration::ZERO }) {
                    is_quiet = true;
                    match database.beat(&described(&workers, &writer)) {
                        Ok(leaving) if leaving.is_empty() => {}
                        Ok(leaving) => shared.ask_to_leave(&leaving),
                        // The renewals of claims report a database that is gone.
                        Err(_) => {}
                    }
                }
                leave(&database, &workers);
            })?;
        Ok(Some(Self { stopped, thread: Some(thread) }))
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        let (stopped, changed) = &*self.stopped;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed there.
            _ = thread.join();
        }
    }
}

/// Waits, at most for this time. Returns whether it was stopped.
fn has_stopped(of: &(Mutex<bool>, Condvar), limit: Duration) -> bool {
    let stopped = of.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = of.1.wait_timeout_while(stopped, limit, |stopped| !*stopped);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Returns the workers with the tasks that they hold.
fn described(workers: &[WorkerRecord], writer: &Weak<Writer>) -> Vec<FleetWorker> {
    let ids: Vec<WorkerId> = workers.iter().map(|worker| worker.id.clone()).collect();
    let held = writer.upgrade().and_then(|writer| {
        let held = writer.look(move |ledger| {
            let of = |id: &WorkerId| ledger.selection().held_by(id).next().cloned();
            ids.iter().map(of).collect::<Vec<_>>()
        });
        held.ok()
    });
    let held = held.unwrap_or_default().into_iter().chain(std::iter::repeat(None));
    let described = workers.iter().zip(held).map(|(record, task)| {
        let registered = RegisteredWorker { record: record.clone(), presence: Presence::Alive };
        let state = if task.is_some() { WorkerState::Working } else { WorkerState::Idle };
        FleetWorker { task, state, ..FleetWorker::from(&registered) }
    });
    described.collect()
}

fn leave(database: &Database, workers: &[WorkerRecord]) {
    for worker in workers {
        if let Err(why) = database.leave(&worker.id) {
            warn(&format!("worker {} is still in the list of workers: {why}", worker.id));
            return;
        }
    }
}
