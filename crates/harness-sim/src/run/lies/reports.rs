//! The response of harness to a lie in the ledger: it restores the known version and reports it.

use harness::store::{Applied, StoreError, disk::File};
use harness_core::{
    Epoch, Fact, Flag, Ledger, Receipt, Run, TaskId, agent::Usage, format, ledger::KEPT_ALERTS,
    task::Status,
};

use super::{Forged, Given, Kind, Lies};
use crate::{git::Head, run::stage::State};

impl State {
    /// Records the end of a transaction. Returns whether harness wrote the ledger on the disk.
    pub(in crate::run) fn answered(&mut self, applied: &Result<Applied, StoreError>) -> bool {
        let facts = applied.as_ref().map_or(&[][..], |applied| &applied.facts[..]);
        let alarms = |fact: &Fact| matches!(fact, Fact::Flagged { flag, .. } if flag.alarms());
        self.lies.alarmed |= facts.iter().any(alarms);
        let Some(Forged { bytes, kind }) = self.lies.forged.clone() else {
            // The next writer starts a new journal if it is not whole.
            self.lies.copies_forged &= facts.is_empty();
            return true;
        };
        let now = self.disk.bytes(File::Ledger);
        if now == bytes {
            let lives = self.disk.crashed().is_none() && !self.dead;
            if lives && applied.is_ok() && kind != Kind::Harmless {
                let what = "a transaction left a forged ledger as it was".into();
                self.broken("no_forgery_is_believed", what);
            }
            return false;
        }
        self.lies.forged = None;
        self.lies.copies_forged = false;
        if kind == Kind::Harmless {
            return true;
        }
        self.tally.written_back += 1;
        if let Ok(ledger) = format::read_ledger(&now)
            && !self.reported(kind, &ledger, facts)
        {
            let what = format!("a forgery ({kind:?}) was answered without a word");
            self.broken("every_forgery_is_reported", what);
        }
        true
    }

    fn reported(&self, kind: Kind, ledger: &Ledger, facts: &[Fact]) -> bool {
        let alerts = ledger.head().alerts.len();
        let alerted = alerts > self.ledger.head().alerts.len() || alerts == KEPT_ALERTS;
        let restored = |fact: &Fact| matches!(fact, Fact::LedgerRestored { .. });
        match kind {
            Kind::Harmless => true,
            Kind::Edit => alerted,
            // The facts of a process that died in the transaction are not known.
            Kind::Broken => alerted || self.dead || facts.iter().any(restored),
        }
    }

    /// Stores the receipt on the disk.
    pub(in crate::run) fn keep_receipt(&mut self, receipt: &Receipt) {
        if !self.lies.on {
            return;
        }
        let of = (receipt.task.clone(), receipt.epoch);
        let name = format!("{}.{}.json", receipt.task, receipt.epoch);
        let bytes = serde_json::to_vec_pretty(receipt).unwrap_or_default();
        self.disk.put_receipt(name, bytes);
        self.lies.receipts.insert(of, receipt.clone());
    }

    /// Drops the latest changes, because the journal is gone or cut and the rest is some changes
    /// behind.
    pub(in crate::run) fn rewind(&mut self) {
        let Ok(ledger) = format::read_ledger(&self.disk.bytes(File::Ledger)) else { return };
        for task in ledger.tasks() {
            let ends = self.lies.ends.entry(task.id.clone()).or_default();
            *ends = (*ends).min(task.attempts);
            let of = (task.id.clone(), task.epoch.unwrap_or_default());
            if task.status() != Status::Completed {
                self.lies.completed.remove(&of);
            }
        }
        self.ledger = ledger;
        self.lies.flags.clear();
        // The lost claim would have returned to this branch.
        self.git.model().head = Head::Branch("main".to_owned());
    }

    /// Records the original settings of new tasks.
    pub(in crate::run) fn learn_tasks(&mut self) {
        let tasks: Vec<_> = self.ledger.tasks().cloned().collect();
        for task in tasks {
            let given =
                Given { check: task.validation.command.clone(), max_attempts: task.max_attempts };
            self.lies.given.entry(task.id).or_insert(given);
        }
    }
}

impl Lies {
    /// Returns the percentage of lies among the actions.
    pub(in crate::run) fn of_a_hundred(&self) -> u64 {
        match (self.killer, self.spender) {
            (true, _) => 90,
            (false, true) => 50,
            (false, false) => 35,
        }
    }

    /// Records that the second copy is no longer whole.
    pub(in crate::run) fn journal_forged(&mut self) {
        self.copies_forged = true;
        self.receipts_lost = true;
    }

    /// Records a flag that the receipt of the attempt must contain.
    pub(in crate::run) fn expect(&mut self, task: &TaskId, epoch: Epoch, flag: Flag) {
        self.flags.entry((task.clone(), epoch)).or_default().insert(flag);
    }

    /// Records the row that a process takes up. Earlier forgeries are left to a person.
    pub(in crate::run) fn taken_up(&mut self, row: Option<Run>) {
        let Some(row) = row else { return };
        (self.terms, self.spent_before) = (row.limits, row.usage);
        self.spent = Usage::default();
    }
}
