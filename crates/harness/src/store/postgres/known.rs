//! A version of the ledger in memory, and how it follows the database.

use std::collections::BTreeMap;

use harness_core::{
    Change, Epoch, Ledger, Reply, TaskId, Timestamp,
    database::{ChangeHash, Recall, Remembered},
    format::{
        Document, State,
        journal::{self, Ending},
    },
    ledger::Row as TaskRow,
    task::RenewedLease,
};
use tokio_postgres::Row;

use super::{
    DatabaseError,
    error::Trouble,
    rows::{count, get},
};

/// The columns of the row that orders the changes.
pub(super) const ORDER: &str = "version, hash, state, head, beat, log_bytes, snapshot_bytes, \
     floor(extract(epoch FROM changed_at))::bigint";
/// Reads all tasks in their order.
pub(super) const TASKS: &str =
    "SELECT entry FROM harness.task WHERE ledger = $1 ORDER BY added_version, added_index";
/// Reads the changes after a version.
pub(super) const CHANGES: &str = "SELECT version, previous, hash, entry FROM harness.change \
     WHERE ledger = $1 AND version > $2 ORDER BY version LIMIT 500";
/// Reads the renewals after a beat.
pub(super) const LEASES: &str = "SELECT task, epoch, floor(extract(epoch FROM expires_at))::bigint \
     FROM harness.lease WHERE ledger = $1 AND beat > $2";
/// Reads the hash of one change.
pub(super) const HASH_AT: &str =
    "SELECT hash FROM harness.change WHERE ledger = $1 AND version = $2";

/// The row that orders the changes of a ledger.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) version: u64,
    pub(super) hash: ChangeHash,
    state: State,
    head: String,
    pub(super) beat: i64,
    log_bytes: u64,
    base: u64,
    at: i64,
}

impl Order {
    pub(super) fn read(row: &Row) -> Result<Self, Trouble> {
        let damaged = |what: &str| damaged(&format!("the row of the ledger has an invalid {what}"));
        let (hash, state): (String, String) = (get(row, 1)?, get(row, 2)?);
        Ok(Self {
            version: count(row, 0)?,
            hash: ChangeHash::parse(&hash).ok_or_else(|| damaged("hash"))?,
            state: State::parse(&state).ok_or_else(|| damaged("state"))?,
            head: get(row, 3)?,
            beat: get(row, 4)?,
            log_bytes: count(row, 5)?,
            base: count(row, 6)?,
            at: get(row, 7)?,
        })
    }
}

/// A version in memory.
pub(super) struct Known {
    /// The tasks with the renewals laid over them.
    pub(super) ledger: Ledger,
    /// The text, as the changes lead to it.
    pub(super) document: Document,
    pub(super) version: u64,
    pub(super) hash: ChangeHash,
    pub(super) beat: i64,
    /// The size of all log lines.
    pub(super) log_bytes: u64,
    /// The size of the snapshot at the start of the changes.
    pub(super) base: u64,
    /// The time of the last change. No later change has an earlier one.
    pub(super) at: i64,
    /// Renewals that no change contains yet.
    pub(super) leases: BTreeMap<TaskId, RenewedLease>,
}

/// Whether the database still has what is known.
pub(super) enum Caught {
    /// The version in memory is the one of the database.
    Up,
    /// The database has forgotten the known version.
    Forgotten,
    /// More changes happened than one look reads.
    More,
    /// A snapshot has replaced what happened meanwhile; all of it must be loaded.
    Behind,
}

impl Known {
    /// Builds the version from all rows of one moment.
    pub(super) fn load(order: &Order, tasks: &[Row], leases: &[Row]) -> Result<Self, Trouble> {
        let mut texts = Vec::with_capacity(tasks.len());
        for row in tasks {
            let text: &str = row.try_get(0).map_err(|why| damaged(&why.to_string()))?;
            texts.push(text);
        }
        let built = journal::rebuild(&order.head, &texts, order.state);
        let what = "the rows of the tasks do not lead to the version of the ledger";
        let (ledger, document) = built.ok_or_else(|| damaged(what))?;
        let mut known = Self::of(order, ledger, document);
        known.renew(leases)?;
        Ok(known)
    }

    fn of(order: &Order, ledger: Ledger, document: Document) -> Self {
        let leases = BTreeMap::new();
        let Order { version, hash, beat, log_bytes, base, at, .. } = *order;
        Self { ledger, document, version, hash, beat, log_bytes, base, at, leases }
    }

    /// Follows the changes and renewals since this version.
    pub(super) fn catch_up(
        &mut self,
        order: &Order,
        changes: &[Row],
        leases: &[Row],
    ) -> Result<Caught, Trouble> {
        let known = self.remembered();
        let first = changes.first().map(|row| count(row, 0)).transpose()?;
        let at = match first {
            None => (order.version == self.version).then_some(order.hash),
            Some(next) if next == self.version + 1 => {
                let previous: String = get(&changes[0], 1)?;
                ChangeHash::parse(&previous)
            }
            Some(_) => None,
        };
        match known.recall(order.version, at) {
            Recall::Forgotten => return Ok(Caught::Forgotten),
            Recall::TooOld => return Ok(Caught::Behind),
            Recall::Known => {}
        }
        for row in changes {
            let (hash, entry): (String, String) = (get(row, 2)?, get(row, 3)?);
            if journal::is_snapshot(&entry) {
                return Ok(Caught::Behind);
            }
            let chained = self.hash.then(&entry);
            if ChangeHash::parse(&hash) != Some(chained) {
                return Err(damaged(&format!(
                    "change {} is not the one that was made",
                    self.version + 1
                )));
            }
            let line = format!("{entry}\n");
            let Some(followed) = journal::follow(&mut self.ledger, &mut self.document, &line)
            else {
                return Ok(Caught::Behind);
            };
            for task in &followed.touched {
                self.leases.remove(task);
            }
            (self.version, self.hash) = (self.version + 1, chained);
        }
        if self.version < order.version {
            return Ok(if changes.is_empty() { Caught::Behind } else { Caught::More });
        }
        (self.log_bytes, self.base, self.at) = (order.log_bytes, order.base, order.at);
        self.renew(leases)?;
        self.beat = order.beat;
        Ok(Caught::Up)
    }

    fn renew(&mut self, leases: &[Row]) -> Result<(), Trouble> {
        for row in leases {
            let task: String = get(row, 0)?;
            let task = TaskId::parse(&task).map_err(|why| damaged(&why.to_string()))?;
            let expires_at = Timestamp::from_seconds(get(row, 2)?);
            let lease = RenewedLease { task, epoch: Epoch(count(row, 1)?), expires_at };
            self.put_lease(lease);
        }
        Ok(())
    }

    /// Lays a renewal over the row of its task.
    pub(super) fn put_lease(&mut self, lease: RenewedLease) {
        if self.ledger.put_lease(&lease) {
            self.leases.insert(lease.task.clone(), lease);
        }
    }

    pub(super) fn remembered(&self) -> Remembered {
        Remembered { version: self.version, hash: self.hash, epoch: self.ledger.epoch() }
    }

    /// Returns the end of the journal that the next change is appended to.
    pub(super) fn ending(&mut self) -> Ending {
        Ending::new(self.version, self.document.state(), self.base)
    }

    /// Returns the ledger in the form of its file, with the renewals.
    pub(super) fn export(&self) -> String {
        let mut document = self.document.clone();
        let rows = self.leases.keys().filter_map(|task| self.ledger.task(task));
        let rows = rows.map(|task| TaskRow::Put(Box::new(task.clone()))).collect();
        let change = Change { head: None, rows, facts: Vec::new(), reply: Reply::Noted };
        document.put_in(&change);
        document.render(&self.ledger)
    }
}

/// Returns the error for rows that contradict each other. The store adds where they are.
pub(super) fn damaged(what: &str) -> Trouble {
    let (server, ledger) = (String::new(), String::new());
    DatabaseError::Damaged { server, ledger, what: what.to_owned() }.into()
}
