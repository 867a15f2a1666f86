//! A version of the ledger in memory, and how it follows the database.

use std::collections::BTreeMap;

use harness_core::{
    Change, Ledger, Reply, TaskId,
    database::{ChangeHash, Recall, Remembered},
    format::{
        Document,
        journal::{self, Ending},
    },
    ledger::Row as TaskRow,
    task::RenewedLease,
};

use super::{
    DatabaseError,
    error::Trouble,
    port::{ChangeRow, LedgerOrder, LedgerWhole},
};

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
    pub(super) fn load(order: &LedgerOrder, whole: LedgerWhole) -> Result<Self, Trouble> {
        let texts: Vec<&str> = whole.tasks.iter().map(String::as_str).collect();
        let built = journal::rebuild(&order.head, &texts, order.state);
        let what = "the rows of the tasks do not lead to the version of the ledger";
        let (ledger, document) = built.ok_or_else(|| damaged(what))?;
        let mut known = Self::of(order, ledger, document);
        whole.leases.into_iter().for_each(|lease| known.put_lease(lease));
        Ok(known)
    }

    fn of(order: &LedgerOrder, ledger: Ledger, document: Document) -> Self {
        let leases = BTreeMap::new();
        let LedgerOrder { version, hash, beat, log_bytes, base, at, .. } = *order;
        Self { ledger, document, version, hash, beat, log_bytes, base, at, leases }
    }

    /// Follows the changes and renewals since this version.
    pub(super) fn catch_up(
        &mut self,
        order: &LedgerOrder,
        changes: &[ChangeRow],
        leases: &[RenewedLease],
    ) -> Result<Caught, Trouble> {
        let known = self.remembered();
        let at = match changes.first() {
            None => (order.version == self.version).then_some(order.hash),
            Some(next) if next.version == self.version + 1 => next.previous,
            Some(_) => None,
        };
        match known.recall(order.version, at) {
            Recall::Forgotten => return Ok(Caught::Forgotten),
            Recall::TooOld => return Ok(Caught::Behind),
            Recall::Known => {}
        }
        if order.beat < self.beat {
            // Renewals were lost, and those in memory are not the ones that count.
            return Ok(Caught::Behind);
        }
        for ChangeRow { hash, entry, .. } in changes {
            if journal::is_snapshot(entry) {
                return Ok(Caught::Behind);
            }
            let chained = self.hash.then(entry);
            if *hash != Some(chained) {
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
        leases.iter().for_each(|lease| self.put_lease(lease.clone()));
        self.beat = order.beat;
        Ok(Caught::Up)
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
