//! A database in memory. Each commit is a version of all rows; the disk has the first of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness::store::postgres::port::{ChangeRow, LedgerOrder, LedgerWrite, Uuid};
use harness_core::{
    Epoch, Ledger, TaskId, Timestamp,
    database::{ChangeHash, Remembered},
    format::{
        Document, State,
        journal::{self, Receipts},
    },
    ledger::Head,
    task::RenewedLease,
};

use super::{flaw::FleetFlaw, target::TARGET};
use crate::random::Random;

/// All rows at one moment.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) order: LedgerOrder,
    pub(super) changes: Vec<Arc<ChangeRow>>,
    /// The texts of the tasks, in their order.
    pub(super) tasks: Vec<(String, Arc<str>)>,
    pub(super) leases: BTreeMap<String, (RenewedLease, i64)>,
    pub(super) operations: BTreeSet<Uuid>,
}

/// What a server keeps, and what happens to it.
pub(super) struct Server {
    /// Each commit since the beginning.
    versions: Vec<Rows>,
    /// The number of versions that the disk has.
    durable: usize,
    /// A transaction whose connection died. It holds the lock, and ends when somebody waits for it.
    pending: Option<(Rows, bool)>,
    /// Connections of an earlier life of the server are dead.
    pub(super) life: u64,
    pub(super) clock: i64,
    pub(super) random: Random,
    pub(super) flaw: FleetFlaw,
    /// The versions that were left by takeovers, for the checkers.
    pub(super) takeovers: Vec<u64>,
    pub(super) crashes: u64,
    /// `false` while nothing may go wrong.
    pub(super) troubled: bool,
    /// Numbers that never repeat.
    pub(super) number: u64,
}

#[derive(Clone)]
pub(super) struct SimDatabase(Arc<Mutex<Server>>);

impl SimDatabase {
    pub(super) fn new(seed: u64, flaw: FleetFlaw, clock: i64) -> Option<Self> {
        let mut server = Server {
            versions: vec![Rows::empty(clock)?],
            durable: 1,
            pending: None,
            life: 0,
            clock,
            random: Random::new(seed),
            flaw,
            takeovers: Vec::new(),
            crashes: 0,
            troubled: true,
            number: 0,
        };
        server.versions[0].order.line = server.line();
        Some(Self(Arc::new(Mutex::new(server))))
    }

    pub(super) fn server(&self) -> MutexGuard<'_, Server> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Returns what others see now.
    pub(super) fn rows(&self) -> &Rows {
        &self.versions[self.versions.len() - 1]
    }

    /// Returns the name of the line of history to which this server adds.
    pub(super) fn line(&self) -> Option<String> {
        match self.flaw {
            FleetFlaw::KnowsNoLines | FleetFlaw::RemembersNothing => None,
            _ => Some(self.takeovers.len().to_string()),
        }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Waits for the lock: a transaction whose connection died ends first.
    pub(super) fn lock(&mut self) {
        if let Some((rows, true)) = self.pending.take() {
            self.commit(rows);
        }
    }

    pub(super) fn commit(&mut self, rows: Rows) {
        self.versions.push(rows);
    }

    /// Writes everything that was committed to the disk.
    pub(super) fn flush(&mut self) {
        self.durable = self.versions.len();
    }

    /// Leaves a transaction behind whose connection died at the commit.
    pub(super) fn leave_pending(&mut self, rows: Rows) {
        let commits = self.random.percent(60);
        self.pending = Some((rows, commits));
    }

    /// Crashes and starts again with what the disk has.
    pub(super) fn crash(&mut self) {
        self.versions.truncate(self.durable);
        self.pending = None;
        self.life += 1;
        self.crashes += 1;
    }

    /// Lets a replica take over that lacks the last commits.
    pub(super) fn take_over(&mut self) {
        let lag = self.random.below(16);
        let left = self.durable.saturating_sub(lag).max(1);
        self.versions.truncate(left);
        self.durable = left;
        self.pending = None;
        self.life += 1;
        // It takes a while, and its clock is another one.
        self.clock += 10 + self.random.below(9) as i64 - 2;
        let version = self.rows().order.version;
        self.takeovers.push(version);
    }

    /// Something happens to the server while a host waits.
    pub(super) fn suffer(&mut self) {
        if !self.troubled {
            return;
        }
        self.clock += self.random.below(8) as i64;
        match self.random.below(100) {
            0..8 => self.crash(),
            8..10 => self.take_over(),
            10..40 => self.lock(),
            _ => {}
        }
    }

    /// Returns the title of a task.
    pub(super) fn title(&self, task: &TaskId) -> Option<String> {
        let (_, text) = self.rows().tasks.iter().find(|(id, _)| id == task.as_str())?;
        let task: serde_json::Value = serde_json::from_str(text).ok()?;
        task["title"].as_str().map(str::to_owned)
    }

    /// Returns whether the chain has this change.
    pub(super) fn has(&self, seen: &Remembered) -> bool {
        let changes = &self.rows().changes;
        let first = changes.first().map_or(0, |change| change.version);
        let at =
            seen.version.checked_sub(first).and_then(|at| changes.get(usize::try_from(at).ok()?));
        at.is_some_and(|change| change.hash == Some(seen.hash))
    }
}

impl Rows {
    fn empty(now: i64) -> Option<Self> {
        let mut head = Head::new(Timestamp::from_seconds(now));
        head.session_config.target_branch = Some(TARGET.to_owned());
        let ledger = Ledger::new(head, Vec::new()).ok()?;
        let mut document = Document::new(&ledger);
        let state = document.settle(&ledger, 1, None);
        let entry = journal::snapshot(&mut document, &[], &Receipts::new());
        let entry = entry.trim_end_matches('\n').to_owned();
        let previous = ChangeHash::origin("simulated");
        let hash = previous.then(&entry);
        let base = entry.len() as u64;
        let first = ChangeRow { version: 1, previous: Some(previous), hash: Some(hash), entry };
        let head = document.root();
        let order = LedgerOrder {
            version: 1,
            hash,
            state,
            head,
            beat: 0,
            log_bytes: 0,
            base,
            at: now,
            line: None,
        };
        let (tasks, leases, operations) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        Some(Self { order, changes: vec![Arc::new(first)], tasks, leases, operations })
    }

    /// Returns the rows after a write, as the statements leave them. `None` if a statement would fail.
    pub(super) fn after(&self, write: &LedgerWrite<'_>) -> Option<Self> {
        let mut rows = self.clone();
        match write {
            LedgerWrite::Change(change) => {
                let hash = ChangeHash::parse(&change.hash)?;
                let version = u64::try_from(change.version).ok()?;
                if version != rows.order.version + 1 || !rows.operations.insert(change.operation) {
                    return None;
                }
                let previous = ChangeHash::parse(&change.previous);
                let entry = change.entry.clone();
                rows.changes.push(Arc::new(ChangeRow {
                    version,
                    previous,
                    hash: Some(hash),
                    entry,
                }));
                rows.order = LedgerOrder {
                    version,
                    hash,
                    state: State::parse(&change.state)?,
                    head: change.head.clone(),
                    log_bytes: u64::try_from(change.log_bytes).ok()?,
                    at: change.at,
                    ..rows.order
                };
                rows.tasks.retain(|(id, _)| !change.dropped.contains(id));
                rows.leases.retain(|id, _| !change.touched.contains(id));
                for (id, entry) in change.tasks.ids.iter().zip(&change.tasks.entries) {
                    rows.put(id, entry);
                }
            }
            LedgerWrite::Leases(leases) => {
                if !rows.operations.insert(leases.operation) {
                    return None;
                }
                rows.order.beat = leases.beat;
                let all = leases.tasks.iter().zip(&leases.epochs).zip(&leases.ends);
                for ((id, epoch), end) in all {
                    let epoch = Epoch(u64::try_from(*epoch).ok()?);
                    let (task, expires_at) =
                        (TaskId::parse(id).ok()?, Timestamp::from_seconds(*end));
                    let lease = RenewedLease { task, epoch, expires_at };
                    rows.leases.insert(id.clone(), (lease, leases.beat));
                }
            }
        }
        Some(rows)
    }

    fn put(&mut self, id: &str, entry: &str) {
        let entry: Arc<str> = Arc::from(entry);
        match self.tasks.iter_mut().find(|(known, _)| known == id) {
            Some((_, text)) => *text = entry,
            None => self.tasks.push((id.to_owned(), entry)),
        }
    }
}
