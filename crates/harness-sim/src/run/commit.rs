//! The real file store on the simulated disk. A commit is made at once, or the process dies in it.

use std::{
    future::Future,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use harness::{
    Commit, Committing,
    clock::Clock,
    project::Keeper,
    store::{FileStore, Runs, Store as _, StoreError, disk::File},
};
use harness_core::{Command, Ledger, Reply, Timestamp, command::OfRun, format, ledger::Head};

use super::{
    Flaw, lies,
    record::SimRuns,
    stage::{Doom, Moment, Stage, gone},
};
use crate::disk::{CrashKind, Trouble};

pub(super) struct SimCommit {
    stage: Stage,
    store: Mutex<FileStore>,
}

impl SimCommit {
    /// Opens the store of a process that starts.
    pub(super) fn new(stage: Stage, root: &Path) -> Self {
        let (disk, liars) = {
            let state = stage.state();
            (state.disk.clone(), state.lies.on && state.flaw != Flaw::BelievesLedger)
        };
        let store = Mutex::new(lies::store(root, disk, liars));
        Self { stage, store }
    }

    fn apply(&self, command: Command) -> Committing {
        if let Command::Run(of_run) = &command {
            let now = self.stage.state().clock.now();
            return of_a_run(&SimRuns(self.stage.clone()), now, of_run);
        }
        let mut state = self.stage.state();
        state.story.tell(|| format!("   commit {command:?}"));
        state.moment(Moment::Effect).map_err(dead)?;
        if let (Flaw::SkipsIntend, Command::Intend(c)) = (state.flaw, &command) {
            return Ok(Ok(Reply::Task(c.holder.task.clone())));
        }
        if let Some(reply) = state.sessions.skipped(state.flaw, &command) {
            return Ok(Ok(reply));
        }
        state.clock.step(1);
        let (now, disk) = (state.clock.now(), state.disk.clone());
        let before = disk.steps();
        disk.begin(match state.fate.doom {
            Some(Doom::Disk(after)) => Some((after, Trouble::Crash(CrashKind::Kill))),
            _ => None,
        });
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let applied = store.apply(now, std::slice::from_ref(&command));
        if disk.crashed().is_some() {
            state.dies();
        } else if let Some(Doom::Disk(after)) = &mut state.fate.doom {
            let used = u32::try_from(disk.steps() - before).unwrap_or(u32::MAX);
            *after = after.saturating_sub(used);
        }
        let answered = state.answered(&applied);
        disk.begin(None);
        if answered {
            state.observe();
        }
        if state.dead {
            return Err(dead(gone()));
        }
        state.moment(Moment::Answer).map_err(dead)?;
        let reply = applied.map_err(Arc::new)?.replies.pop();
        let reply = reply.ok_or_else(|| dead(std::io::Error::other("no reply")))?;
        state.follow_session(&command, &reply);
        match &reply {
            Ok(_) => state.tally.applied += 1,
            Err(refusal) => {
                state.story.tell(|| format!("      refused: {refusal}"));
                state.tally.refused += 1;
            }
        }
        Ok(reply)
    }
}

impl Commit for SimCommit {
    fn commit(&self, command: Command) -> Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
        Box::pin(std::future::ready(self.apply(command)))
    }
}

impl Keeper for SimCommit {
    fn commit(self: Arc<Self>, runs: Arc<dyn Runs>, clock: Arc<dyn Clock>) -> Arc<dyn Commit> {
        Arc::new(SimStores { ledger: self, runs, clock })
    }

    /// Returns the ledger that this process knows if agents lie, and otherwise the one in the file.
    fn snapshot(&self) -> harness::Result<Ledger> {
        let (disk, flaw, liars) = {
            let state = self.stage.state();
            (state.disk.clone(), state.flaw, state.lies.on)
        };
        if liars {
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            let ledger = store.ledger()?.clone();
            return Ok(if flaw == Flaw::ShrugsOff { without_alerts(ledger) } else { ledger });
        }
        let bytes = disk.bytes(File::Ledger);
        let bytes = if flaw == Flaw::NoPhases { without_phases(&bytes) } else { bytes };
        format::read_ledger(&bytes).map_err(|e| StoreError::Format(e).into())
    }

    /// Does nothing. The checkers judge the files as the process left them.
    fn settle(&self) -> harness::Result<()> {
        Ok(())
    }
}

/// The ledger and the runs as one.
struct SimStores {
    ledger: Arc<SimCommit>,
    runs: Arc<dyn Runs>,
    clock: Arc<dyn Clock>,
}

impl Commit for SimStores {
    fn commit(&self, command: Command) -> Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
        let committed = match &command {
            Command::Run(of_run) => of_a_run(&*self.runs, self.clock.now(), of_run),
            _ => self.ledger.apply(command),
        };
        Box::pin(std::future::ready(committed))
    }
}

fn of_a_run(runs: &dyn Runs, now: Timestamp, of_run: &OfRun) -> Committing {
    runs.apply(now, of_run).map_err(|e| dead(std::io::Error::other(e.to_string())))
}

fn without_alerts(ledger: Ledger) -> Ledger {
    let head = Head { alerts: Vec::new(), ..ledger.head().clone() };
    Ledger::new(head, ledger.tasks().cloned().collect()).unwrap_or(ledger)
}

fn without_phases(bytes: &[u8]) -> Vec<u8> {
    let Ok(mut ledger) = serde_json::from_slice::<serde_json::Value>(bytes) else {
        return bytes.to_owned();
    };
    ledger.as_object_mut().map(|ledger| ledger.remove("phases"));
    ledger.to_string().into_bytes()
}

fn dead(error: std::io::Error) -> Arc<StoreError> {
    Arc::new(StoreError::Io(error))
}
