//! The source of a board: the files of a root, read again only where they changed.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use harness::{
    home::{FileStamp, Home},
    store::{RunStoreError, Store as _, postgres::PostgresStore},
    view::{ActivityLog, Board, BoardInputs, RunHistory, Trusted, recently_completed},
};
use harness_core::{Ledger, Receipt, Run, TaskId, Timestamp, ledger::SessionConfig};

use super::{Surroundings, commits_ahead, read_rows, recent_events, take_attempt};
use crate::{
    elsewhere::{Elsewhere, Seen},
    environment::Environment,
    failure::Result,
    root::StateRoot,
    trust::Trust,
};

/// The interval of looks at things that need git or many files.
const SLOW: Duration = Duration::from_secs(5);
/// The number of entries in a list of a board.
const MOST: usize = 200;
/// The number of results whose rows are read. The cost of the others is in their receipts.
const WITH_ROWS: usize = 40;

/// Reads boards of one root, one after the other.
pub(crate) struct BoardSource {
    env: Environment,
    root: StateRoot,
    ledger: Option<KnownLedger>,
    receipts: HashMap<TaskId, Receipt>,
    slow: Option<Slow>,
    /// Why the record of runs could not be read.
    problem: Option<String>,
    seen: (Vec<Option<FileStamp>>, Option<Seen>),
    /// A ledger in a database, with the store that follows it.
    database: Option<(Elsewhere, PostgresStore)>,
}

struct KnownLedger {
    stamp: LedgerStamp,
    ledger: Ledger,
}

/// What shows that a ledger has not changed.
#[derive(PartialEq, Eq)]
enum LedgerStamp {
    File(FileStamp),
    Database(Seen),
    /// It is read anew each time.
    Unknown,
}

/// What changes rarely and costs a process of git, or many files.
struct Slow {
    read: Instant,
    ahead: Option<u32>,
    trusted: Trusted,
}

impl BoardSource {
    pub(crate) fn new(env: Environment, root: StateRoot) -> Self {
        Self {
            env,
            root,
            ledger: None,
            receipts: HashMap::new(),
            slow: None,
            problem: None,
            seen: (Vec::new(), None),
            database: None,
        }
    }

    /// Returns why the last board is not complete.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns whether the files of a board, or its ledger in a database, changed since the last call.
    pub(crate) fn has_changed(&mut self) -> bool {
        let home = Home::of(self.root.path());
        let wal = home.database().with_extension("db-wal");
        let files = [home.ledger(), home.database(), wal, home.gate()];
        let now: Vec<_> =
            files.iter().map(|file| FileStamp::at(file).map(FileStamp::of_content)).collect();
        let now = (now, self.database.as_ref().map(|(ledger, _)| ledger.seen()));
        let changed = now != self.seen;
        self.seen = now;
        changed
    }

    /// Returns what agents did last, from the records of runs that go on. It is for a surface that
    /// begins to look while they work.
    pub(crate) fn activity(&self) -> ActivityLog {
        recent_events::activity(&self.root)
    }

    /// Returns the ledger as it is now. It is read only if it changed.
    pub(crate) fn ledger(&mut self) -> Result<&Ledger> {
        let stamp = self.stamp();
        let is_same = |known: &KnownLedger| known.stamp == stamp && stamp != LedgerStamp::Unknown;
        let known = match self.ledger.take().filter(is_same) {
            Some(known) => known,
            None => KnownLedger { stamp, ledger: self.read()? },
        };
        Ok(&self.ledger.insert(known).ledger)
    }

    fn stamp(&mut self) -> LedgerStamp {
        if self.root.backing().is_files() {
            let file = Home::of(self.root.path()).ledger();
            let stamp = FileStamp::at(&file).map(FileStamp::of_content);
            return stamp.map_or(LedgerStamp::Unknown, LedgerStamp::File);
        }
        if self.database.is_none()
            && let Ok(Some(database)) = self.root.backing().open()
        {
            let ledger = Elsewhere::follow(&self.root, || {});
            self.database = ledger.map(|ledger| (ledger, database.store()));
        }
        match self.database.as_ref().map(|(ledger, _)| ledger.seen()) {
            // The first look is still to come.
            None | Some((0, _)) => LedgerStamp::Unknown,
            Some(seen) => LedgerStamp::Database(seen),
        }
    }

    fn read(&mut self) -> Result<Ledger> {
        match &mut self.database {
            Some((_, store)) => Ok(store.ledger()?.clone()),
            None => Ok(self.root.snapshot()?),
        }
    }

    /// Returns the project as it is now. `activity` is what the events of the host said.
    pub(crate) fn board(&mut self, activity: &ActivityLog, now: Timestamp) -> Result<Board> {
        let surroundings = Surroundings::of(&self.env, &self.root);
        self.ledger()?;
        let Self { env, root, ledger, receipts, slow, problem, .. } = self;
        let Some(KnownLedger { ledger, .. }) = ledger else { unreachable!("it was read just now") };
        take_receipts(root, ledger, receipts);
        let slow = match slow.take().filter(|slow| slow.read.elapsed() < SLOW) {
            Some(known) => slow.insert(known),
            None => slow.insert(Slow::read(env, root, &ledger.head().session_config)),
        };
        let read = record(root, ledger);
        // An unreadable record must not prevent the display of the rest.
        *problem = read.as_ref().err().map(ToString::to_string);
        let record = read.unwrap_or_default();
        let mut inputs = BoardInputs::new(root.path(), ledger, &record, activity, receipts);
        inputs.questions = &surroundings.questions;
        inputs.gate = surroundings.gate.as_ref();
        inputs.workers = &surroundings.workers;
        inputs.ahead = slow.ahead;
        inputs.trusted = slow.trusted;
        inputs.most = MOST;
        Ok(Board::of(&inputs, now))
    }
}

impl Slow {
    fn read(env: &Environment, root: &StateRoot, config: &SessionConfig) -> Self {
        let trusted = Trust::of_user(env).and_then(|trust| trust.is_trusted(root));
        Self {
            read: Instant::now(),
            ahead: commits_ahead(env, root, config),
            // What cannot be determined is reported where something would run.
            trusted: if trusted.unwrap_or(true) { Trusted::Yes } else { Trusted::No },
        }
    }
}

/// Reads the receipts of tasks that were completed recently and are not known yet.
fn take_receipts(root: &StateRoot, ledger: &Ledger, known: &mut HashMap<TaskId, Receipt>) {
    let recent = recently_completed(ledger, MOST);
    known.retain(|id, receipt| {
        ledger.task(id).is_some_and(|task| task.epoch == Some(receipt.epoch))
    });
    for task in recent {
        let (false, Some(epoch)) = (known.contains_key(&task.id), task.epoch) else { continue };
        if let Ok(Some(found)) = root.receipt(&task.id, epoch) {
            known.insert(task.id.clone(), found);
        }
    }
}

/// Returns the rows that a board needs: runs that go on, the last one, and the attempts of claims and
/// of recent results.
fn record(root: &StateRoot, ledger: &Ledger) -> Result<RunHistory, RunStoreError> {
    read_rows(root, |store| {
        let mut runs: Vec<Run> = store.recent()?;
        let claimed = ledger.selection().claimed().filter_map(|id| ledger.task(id));
        for task in claimed.chain(recently_completed(ledger, WITH_ROWS)) {
            if let Some(epoch) = task.epoch {
                take_attempt(store, &task.id, epoch, &mut runs);
            }
        }
        Ok(runs)
    })
}
