//! One transaction of the store: it decides all commands on one working copy, and answers when the
//! file contains the result.

use harness_core::{Command, Ledger, Timestamp, decide};

use super::{
    Applied, AppliedOnce, FileStore, Recording, StoreError, TransactionId, alive,
    disk::File,
    journal::{self, Made},
    trajectory,
    version::{Backup, Freshness, Known},
};

impl FileStore {
    /// Decides all commands on one working copy. `known` is taken out. It comes back only when the
    /// file contains the result.
    fn decide(
        &mut self,
        now: Timestamp,
        commands: &[Command],
        applied: &mut Applied,
        known: &mut Known,
        made: &mut Made,
    ) -> Result<Touched, StoreError> {
        let mut touched = Touched::Nothing;
        if commands.iter().any(|c| matches!(c, Command::Claim(_) | Command::Upkeep)) {
            let alive = alive::among(&self.root, &known.ledger, now);
            known.ledger.set_alive(alive);
        }
        for (n, command) in commands.iter().enumerate() {
            match decide(&known.ledger, now, command) {
                Ok(change) => {
                    if !change.is_empty() {
                        let archived = self.put_in(now, &change, known)?;
                        applied.archived.extend(archived.map(|path| (n, path)));
                        made.touched.note(&change);
                        touched = Touched::Ledger;
                    }
                    applied.facts.extend(change.facts);
                    applied.replies.push(Ok(change.reply));
                }
                Err(refusal) => applied.replies.push(Err(refusal)),
            }
        }
        Ok(touched)
    }

    pub(super) fn transaction(
        &mut self,
        now: Timestamp,
        commands: &[Command],
        of: Option<&TransactionId>,
    ) -> Result<AppliedOnce, StoreError> {
        let mut applied =
            Applied { warnings: std::mem::take(&mut self.warnings), ..Applied::default() };
        let held = self.enter(&mut applied.warnings)?;
        let freshness = self.refresh(now)?;
        if let Some(known) = &self.known {
            writable(&known.ledger)?;
        }
        let Some(mut known) = self.known.take() else {
            return Err(StoreError::NoLedger { root: self.root.clone() });
        };
        if of.is_some_and(|of| known.document.transaction_of(&of.by) >= of.number) {
            self.known = Some(known);
            return Ok(AppliedOnce::Before);
        }
        if !matches!(freshness, Freshness::AsKnown) {
            self.history.restart();
        }
        let (mut anew, raised) = self.report(freshness, &known.ledger);
        anew.extend(self.files_anew(&mut known)?);
        self.finish_log(known.ledger.head())?;
        if !anew.is_empty() || !raised.is_empty() {
            known = self.put_back(now, known, anew, &raised, &mut applied)?;
        }
        let restored = applied.facts.len();
        let before = self.disk.journals().then(|| known.state());
        let mut made = Made { before, ..Made::default() };
        let touched = self.decide(now, commands, &mut applied, &mut known, &mut made)?;
        match touched {
            Touched::Ledger => {}
            Touched::Nothing if of.is_some_and(|of| of.recording == Recording::Always) => {}
            Touched::Nothing => {
                self.known = Some(known);
                self.tell_trajectory(now, restored, &mut applied);
                return Ok(AppliedOnce::Now(applied));
            }
        }
        if let Some(TransactionId { by, number, .. }) = of {
            known.document.record_transaction(by, *number);
        }
        let session = known.ledger.head().session_count;
        let lines = applied.facts[restored..].iter().filter_map(|f| f.log_line(now, session));
        let lines = lines.map(|l| l.to_string()).collect();
        self.end_log_line()?;
        known.ledger.set_log_tail(lines, self.disk.size(File::Log)?);
        if self.disk.journals() {
            let completed = journal::completed(&applied.facts[restored..]);
            made.receipts = journal::receipts_of(&*self.disk, &known.ledger, &completed)?;
        }
        if held.as_ref().is_some_and(|h| !h.still_held()) {
            return Err(StoreError::LockLost);
        }
        let warnings = self.write(known, made, Backup::Keep)?;
        applied.warnings.extend(warnings);
        drop(held);
        let told = applied.facts.len();
        self.tell_trajectory(now, told, &mut applied);
        Ok(AppliedOnce::Now(applied))
    }

    /// Appends the first `count` facts to the trajectory. The others changed nothing.
    fn tell_trajectory(&self, now: Timestamp, count: usize, applied: &mut Applied) {
        let told = trajectory::tell(&*self.disk, now, &applied.facts[..count]);
        if let Err(e) = told {
            applied
                .warnings
                .push(format!("the change was made, but not added to the trajectory: {e}"));
        }
    }
}

#[derive(Clone, Copy)]
enum Touched {
    Nothing,
    Ledger,
}

/// Returns an error if the ledger names a feature that this version does not know.
pub(super) fn writable(ledger: &Ledger) -> Result<(), StoreError> {
    let features: Vec<String> = ledger.head().unknown_needs().map(str::to_owned).collect();
    if features.is_empty() { Ok(()) } else { Err(StoreError::Needs { features }) }
}
