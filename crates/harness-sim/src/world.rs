//! One simulated world: a disk, a clock, some workers, a person who edits the ledger, and other
//! programs that write to the log. Everything comes from the seed.

mod outside;
mod session;
mod transaction;

use std::{io, path::Path};

use harness::store::{FileStore, Locking, Store, disk::File};
use harness_core::{Command, Ledger, Timestamp, WorkerId, format};

use crate::{
    checkers::{Violation, outside_fields_survive},
    disk::{CrashKind, Quirk, SimDisk, Trouble},
    git::{self, SimGit},
    history::History,
    random::Random,
    story::{Story, Tally},
    workers::{Ids, Worker},
};

const ROOT: &str = "/simulated";
const STEPS: usize = 100;
/// More steps than a transaction has, so that some crashes come after its end.
const STEPS_OF_A_TRANSACTION: usize = 34;

/// Creates the store of a starting process. A broken store shows that the checkers detect it.
pub type MakeStore = fn(SimDisk) -> Box<dyn Store>;

pub fn sound(disk: SimDisk) -> Box<dyn Store> {
    Box::new(FileStore::on(Path::new(ROOT), Box::new(disk), Locking::Elsewhere))
}

pub struct World {
    pub(crate) random: Random,
    pub(crate) now: i64,
    pub(crate) disk: SimDisk,
    make_store: MakeStore,
    workers: Vec<Worker>,
    pub(crate) git: SimGit,
    pub(crate) ids: Ids,
    /// The ledger that the next reader will find.
    pub(crate) current: Ledger,
    pub(crate) history: History,
    /// Versions that were replaced by one that was never acknowledged. A power loss may bring them
    /// back.
    pub(crate) unsettled: Vec<(Ledger, History)>,
    /// The content of `.bak`, if it is certain.
    pub(crate) backup: Option<Ledger>,
    /// The last version that harness wrote, if a person has edited it since. The journal does not
    /// have the edit.
    pub(crate) before_edits: Option<Ledger>,
    pub(crate) corrupt: bool,
    pub story: Story,
    pub tally: Tally,
}

impl World {
    pub fn new(seed: u64, quirk: Quirk, make_store: MakeStore, story: Story) -> Self {
        let mut random = Random::new(seed);
        let workers = 2 + random.below(4);
        let now = Timestamp::from_seconds(1_751_364_000);
        Self {
            now: now.seconds(),
            disk: SimDisk::new(seed, quirk),
            make_store,
            // The last worker is the session, which has a work tree.
            workers: (1..=workers + 1).map(Worker::new).collect(),
            git: git::repository(),
            ids: Ids::default(),
            current: empty_ledger(now),
            history: History::default(),
            unsettled: Vec::new(),
            backup: None,
            before_edits: None,
            corrupt: false,
            story,
            tally: Tally::default(),
            random,
        }
    }

    /// Runs the whole seed.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.found()?;
        for _ in 0..STEPS {
            self.tally.steps += 1;
            self.now += [0, 0, 1, 5, 20][self.random.below(5)];
            match self.random.weighted(&[82, 5, 5, 5, 2, 4]) {
                0 => self.worker_acts()?,
                1 => self.clock_jumps(),
                2 => self.person_edits()?,
                3 => self.peer_writes(),
                4 => self.power_fails()?,
                _ => self.session_attempts()?,
            }
        }
        self.end()
    }

    /// Performs `init` as often as it takes.
    fn found(&mut self) -> Result<(), Violation> {
        let trouble = self.random.percent(30).then(|| self.trouble());
        for trouble in [trouble, None] {
            self.disk.begin(trouble);
            let disk = Box::new(self.disk.clone());
            let mut store = FileStore::on(Path::new(ROOT), disk, Locking::Elsewhere);
            let made = store.create(Timestamp::from_seconds(self.now));
            self.story.tell(|| format!("init: {made:?}"));
            if self.disk.crashed().is_none() && made.is_ok() {
                // The process that created the ledger continues with it.
                self.workers[0].store = Some(Box::new(store));
                break;
            }
        }
        self.disk.begin(None);
        self.current = self.look()?;
        // The time may be that of the first try.
        self.history.lines.clone_from(&self.current.head().log_tail);
        self.unsettled.clear();
        self.disk.founded();
        Ok(())
    }

    pub(crate) fn worker_acts(&mut self) -> Result<(), Violation> {
        let n = self.random.below(self.session());
        let worker = &mut self.workers[n];
        let commands = worker.next(&self.current, &mut self.ids, &mut self.random);
        let trouble = self.random.percent(25).then(|| self.trouble());
        self.transact(n, commands, trouble)
    }

    /// Returns the position of the session among the workers.
    pub(crate) fn session(&self) -> usize {
        self.workers.len() - 1
    }

    pub(crate) fn session_id(&self) -> &WorkerId {
        &self.workers[self.session()].id
    }

    pub(crate) fn some_trouble(&mut self) -> Option<(u32, Trouble)> {
        self.random.percent(30).then(|| self.trouble())
    }

    fn trouble(&mut self) -> (u32, Trouble) {
        let after = self.random.below(STEPS_OF_A_TRANSACTION) as u32;
        let trouble = match self.random.weighted(&[40, 35, 15, 10]) {
            0 => Trouble::Crash(CrashKind::Kill),
            1 => Trouble::Crash(CrashKind::PowerLoss),
            2 => Trouble::Fault(io::ErrorKind::StorageFull),
            _ => Trouble::Fault(io::ErrorKind::Other),
        };
        (after, trouble)
    }

    pub(crate) fn everybody_restarts(&mut self) {
        for worker in &mut self.workers {
            let unheard = worker.unheard.take();
            worker.dies(unheard, &mut self.random);
        }
    }

    fn end(&mut self) -> Result<(), Violation> {
        // The next transaction completes the log, so nothing is left open.
        self.transact(0, vec![Command::Renew(nobodys_renewal())], None)?;
        outside_fields_survive(&self.disk, &self.history)
    }

    /// Returns the ledger that the next transaction will read.
    pub(crate) fn look(&mut self) -> Result<Ledger, Violation> {
        let parse = |bytes: &[u8]| format::read_ledger(bytes);
        let broken = match parse(&self.disk.bytes(File::Ledger)) {
            Ok(ledger) => {
                self.corrupt = false;
                return Ok(ledger);
            }
            Err(e) => e.to_string(),
        };
        let checker = "ledger_or_backup_always_parses";
        if !self.corrupt {
            return Err(Violation { checker, what: broken });
        }
        let mut ledger = match (format::read(&self.disk.bytes(File::Backup)), self.journaled()) {
            (Ok((_, backup)), Some((journal, document)))
                if document.revision() > backup.revision() =>
            {
                journal
            }
            (Ok((backup, _)), _) => backup,
            (Err(_), Some((journal, _))) => journal,
            (Err(e), None) => {
                return Err(Violation { checker, what: format!("{broken}; backup: {e}") });
            }
        };
        ledger.skip_epochs();
        Ok(ledger)
    }

    /// Returns the version that the journal leads to.
    pub(crate) fn journaled(&self) -> Option<(Ledger, format::Document)> {
        let replayed = format::journal::replay(&self.disk.bytes(File::Journal))?;
        Some((replayed.ledger, replayed.document))
    }
}

fn nobodys_renewal() -> harness_core::command::Renew {
    let worker = harness_core::WorkerId::recorded("nobody");
    let task = harness_core::TaskId::numbered(0);
    let holder = harness_core::Holder { task, worker, epoch: None };
    harness_core::command::Renew::new(holder, 1)
}

fn empty_ledger(now: Timestamp) -> Ledger {
    match Ledger::new(harness_core::ledger::Head::new(now), Vec::new()) {
        Ok(ledger) => ledger,
        Err(_) => unreachable!("no tasks, no duplicates"),
    }
}
