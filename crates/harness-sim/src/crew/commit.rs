//! The real file store on the simulated disk, one for each process. A commit is made at once, or the
//! process dies in it.

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
    store::{Changes, FileStore, Locking, Runs, Store as _, StoreError, disk::File},
};
use harness_core::{Command, Ledger, format};

use super::{
    CrewFlaw,
    fate::{Doom, Moment},
    flaw::missent,
    floor::{Floor, gone},
};
use crate::disk::{CrashKind, Trouble};

pub(super) struct CrewCommit {
    floor: Floor,
    pid: u32,
    store: Mutex<FileStore>,
    changes: Changes,
}

impl CrewCommit {
    pub(super) fn new(floor: &Floor, pid: u32, root: &Path, changes: Changes) -> Self {
        let disk = floor.state().disk.clone();
        let store = FileStore::on(root, Box::new(disk), Locking::Elsewhere);
        Self { floor: floor.clone(), pid, store: Mutex::new(store), changes }
    }

    fn apply(&self, command: &Command) -> Committing {
        let (pid, mut state) = (self.pid, self.floor.state());
        let command = &missent(state.flaw, command);
        state.moment(pid, Moment::Effect).map_err(dead)?;
        state.story.tell(|| format!("   {pid} commit {command:?}"));
        state.follow_refs();
        let (now, disk) = (harness::clock::Clock::now(&*state.clock), state.disk.clone());
        let doom = state.lives.get(&pid).and_then(|life| life.fate.doom);
        let before = disk.steps();
        disk.begin(match doom {
            Some(Doom::Disk(after)) => Some((after, Trouble::Crash(CrashKind::Kill))),
            _ => None,
        });
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let applied = store.apply(now, std::slice::from_ref(command));
        if disk.crashed().is_some() {
            state.dies(pid);
        }
        let used = u32::try_from(disk.steps() - before).unwrap_or(u32::MAX);
        if let Some(life) = state.lives.get_mut(&pid)
            && let Some(Doom::Disk(after)) = &mut life.fate.doom
        {
            *after = after.saturating_sub(used);
        }
        disk.begin(None);
        if state.flaw == CrewFlaw::LogsTwice && matches!(command, Command::Complete(_)) {
            let log = String::from_utf8_lossy(&disk.bytes(File::Log)).into_owned();
            let line = log.lines().rev().find(|line| line.contains("Completed ["));
            line.iter().for_each(|line| disk.add_lines(File::Log, format!("{line}\n").as_bytes()));
        }
        state.observe();
        if applied.as_ref().is_ok_and(|applied| !applied.facts.is_empty()) {
            self.changes.notify();
        }
        if state.is_dead(pid) {
            return Err(dead(gone()));
        }
        state.moment(pid, Moment::Answer).map_err(dead)?;
        let reply = applied.map_err(Arc::new)?.replies.pop();
        let reply = reply.ok_or_else(|| dead(std::io::Error::other("no reply")))?;
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

impl Keeper for CrewCommit {
    fn commit(self: Arc<Self>, runs: Arc<dyn Runs>, clock: Arc<dyn Clock>) -> Arc<dyn Commit> {
        Arc::new(CrewStores { ledger: self, runs, clock })
    }

    fn snapshot(&self) -> harness::Result<Ledger> {
        let (disk, flaw) = {
            let state = self.floor.state();
            (state.disk.clone(), state.flaw)
        };
        let ledger = format::read_ledger(&disk.bytes(File::Ledger)).map_err(StoreError::Format)?;
        Ok(flaw.misread(ledger))
    }

    fn settle(&self) -> harness::Result<()> {
        Ok(())
    }
}

/// The ledger and the runs as one.
struct CrewStores {
    ledger: Arc<CrewCommit>,
    runs: Arc<dyn Runs>,
    clock: Arc<dyn Clock>,
}

impl Commit for CrewStores {
    fn commit(&self, command: Command) -> Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
        let committed = match &command {
            Command::Run(of_run) => {
                let applied = self.runs.apply(self.clock.now(), of_run);
                applied.map_err(|e| dead(std::io::Error::other(e.to_string())))
            }
            _ => self.ledger.apply(&command),
        };
        Box::pin(std::future::ready(committed))
    }
}

fn dead(error: std::io::Error) -> Arc<StoreError> {
    Arc::new(StoreError::Io(error))
}
