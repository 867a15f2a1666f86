//! What the harness makes of a lie about the ledger: it writes back what it knows, and says so.

use harness::store::{Applied, StoreError, disk::File};
use harness_core::{
    Epoch, Fact, Flag, Ledger, Receipt, Run, TaskId, agent::Usage, format, ledger::KEPT_ALERTS,
    task::Status,
};

use super::{Forged, Given, Kind, Lies};
use crate::{git::Head, run::stage::State};

impl State {
    /// A transaction of the harness is over, or it died in it. Says whether the ledger on the disk is
    /// one that the harness wrote.
    pub(in crate::run) fn answered(&mut self, applied: &Result<Applied, StoreError>) -> bool {
        let facts = applied.as_ref().map_or(&[][..], |applied| &applied.facts[..]);
        let alarms = |fact: &Fact| matches!(fact, Fact::Flagged { flag, .. } if flag.alarms());
        self.lies.alarmed |= facts.iter().any(alarms);
        let Some(Forged { bytes, kind }) = self.lies.forged.clone() else {
            // The next writer begins the journal anew where it is not whole.
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
            // Of a process that died in it nobody has heard the facts.
            Kind::Broken => alerted || self.dead || facts.iter().any(restored),
        }
    }

    /// The receipt as it is on the disk.
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

    /// The journal is gone or cut, and what is left is some changes behind: those are lost.
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
        // The branch that the lost claim would have returned to.
        self.git.model().head = Head::Branch("main".to_owned());
    }

    /// Remembers what tasks were given that were not there before.
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
    /// How much of what an agent does is a lie.
    pub(in crate::run) fn of_a_hundred(&self) -> u64 {
        match (self.killer, self.spender) {
            (true, _) => 90,
            (false, true) => 50,
            (false, false) => 35,
        }
    }

    /// The second copy is not whole any more.
    pub(in crate::run) fn journal_forged(&mut self) {
        self.copies_forged = true;
        self.receipts_lost = true;
    }

    /// An attempt did something that its receipt has to tell.
    pub(in crate::run) fn expect(&mut self, task: &TaskId, epoch: Epoch, flag: Flag) {
        self.flags.entry((task.clone(), epoch)).or_default().insert(flag);
    }

    /// A process takes the run up as its row is now. What was forged before is for a person to see.
    pub(in crate::run) fn taken_up(&mut self, row: Option<Run>) {
        let Some(row) = row else { return };
        (self.terms, self.spent_before) = (row.limits, row.usage);
        self.spent = Usage::default();
    }
}
