//! One transaction of a worker: the expected result, the actual one, and what may come back later.

use harness::store::{StoreError, disk::File};
use harness_core::{Command, Fact, Ledger, Timestamp, decide};

use super::World;
use crate::{
    checkers::{
        Expected, Outcome, Step, Stored, Violation, check_state, check_transition,
        outside_fields_survive, same,
    },
    disk::{CrashKind, Trouble},
    history::History,
};

impl World {
    pub(crate) fn transact(
        &mut self,
        n: usize,
        commands: Vec<Command>,
        trouble: Option<(u32, Trouble)>,
    ) -> Result<(), Violation> {
        let now = Timestamp::from_seconds(self.now);
        let was_corrupt = self.corrupt;
        let bytes_before = self.disk.bytes(File::Ledger);
        let log_before = self.disk.bytes(File::Log);
        let expected = expect(&self.current, now, &commands);
        let outcome = self.apply(n, now, &commands, trouble);
        let after = self.look()?;
        let bytes_changed = self.disk.bytes(File::Ledger) != bytes_before;
        let stored = self.stored(&after, &expected, &outcome, bytes_changed, was_corrupt);
        self.story.tell(|| {
            let id = &self.workers[n].id;
            format!("[{now}] {id} {commands:?}\n      {trouble:?} → {stored:?} {outcome:?}")
        });
        if was_corrupt && matches!(outcome, Outcome::Died(CrashKind::PowerLoss)) {
            self.forget_lost_lines();
        }
        let log_after = self.disk.bytes(File::Log);
        let before = std::mem::replace(&mut self.current, after);
        let step = Step {
            before: &before,
            after: &self.current,
            expected: &expected,
            commands: &commands,
            outcome: &outcome,
            stored,
            was_corrupt,
            bytes_changed,
            log_before: &log_before,
            log_after: &log_after,
            disk: &self.disk,
        };
        check_transition(&step, &self.history)?;
        let history_before = matches!(outcome, Outcome::Errored { .. } | Outcome::Died(_))
            .then(|| self.history.clone());
        let restored = was_corrupt && !self.corrupt;
        if restored {
            self.history.lines.push(find_recovery_line(&self.current, &log_after)?);
            self.tally.restored += 1;
        }
        match stored {
            Stored::New if bytes_changed => {
                self.history.stored(&before, &self.current, &commands);
                self.history.lines.extend(expected.lines.iter().cloned());
            }
            Stored::Earlier(version) => {
                self.history = self.unsettled.swap_remove(version).1;
            }
            Stored::New | Stored::Same | Stored::Other => {}
        }
        if let Outcome::Acknowledged { replies, .. } = &outcome {
            self.tally.refused += replies.iter().filter(|r| r.is_err()).count() as u64;
            self.history.acknowledged(&commands, replies);
        }
        check_state(&step, &self.history)?;
        let wrote = bytes_changed || expected.touched;
        self.settle(before, history_before, &outcome, stored, wrote, was_corrupt);
        self.tell_worker(n, commands, &outcome);
        if !self.corrupt && self.random.percent(15) {
            outside_fields_survive(&self.disk, &self.history)?;
        }
        Ok(())
    }

    /// Applies the commands in one process, which may die in it.
    fn apply(
        &mut self,
        n: usize,
        now: Timestamp,
        commands: &[Command],
        trouble: Option<(u32, Trouble)>,
    ) -> Outcome {
        self.disk.begin(trouble);
        let (disk, make_store) = (self.disk.clone(), self.make_store);
        let store = self.workers[n].store.get_or_insert_with(|| make_store(disk));
        let result = store.apply(now, commands);
        let outcome = self.outcome(result);
        self.disk.begin(None);
        outcome
    }

    fn outcome(&mut self, result: Result<harness::store::Applied, StoreError>) -> Outcome {
        match (self.disk.crashed(), result) {
            (Some(kind), _) => {
                match kind {
                    CrashKind::Kill => self.tally.kills += 1,
                    CrashKind::PowerLoss => self.tally.power_losses += 1,
                }
                Outcome::Died(kind)
            }
            (None, Ok(applied)) => {
                self.tally.applied += applied.replies.iter().filter(|r| r.is_ok()).count() as u64;
                Outcome::Acknowledged { replies: applied.replies, warnings: applied.warnings }
            }
            (None, Err(error)) => {
                self.tally.faults += 1;
                let unrecoverable = matches!(error, StoreError::Unrecoverable { .. });
                Outcome::Errored { error: error.to_string(), unrecoverable }
            }
        }
    }

    fn stored(
        &self,
        after: &Ledger,
        expected: &Expected,
        outcome: &Outcome,
        bytes_changed: bool,
        was_corrupt: bool,
    ) -> Stored {
        if expected.touched && was_corrupt && !self.corrupt && recovery_line(after).is_some() {
            // The backup was restored, but the commands were not applied.
            return if same(after, &self.current) { Stored::Same } else { Stored::Other };
        }
        let answered = matches!(outcome, Outcome::Acknowledged { .. });
        if same(after, &expected.ledger) && (answered || !expected.touched || bytes_changed) {
            return Stored::New;
        }
        if same(after, &self.current) {
            return Stored::Same;
        }
        let earlier = self.unsettled.iter().position(|(ledger, _)| same(after, ledger));
        earlier.map_or(Stored::Other, Stored::Earlier)
    }

    /// Records what a later power loss or a garbled ledger may bring back.
    fn settle(
        &mut self,
        before: Ledger,
        history_before: Option<History>,
        outcome: &Outcome,
        stored: Stored,
        wrote: bool,
        was_corrupt: bool,
    ) {
        if was_corrupt && !self.corrupt && !matches!(outcome, Outcome::Acknowledged { .. }) {
            // A power loss now would bring the garbage back. The model does not follow that
            // combination.
            self.disk.settle();
        }
        if wrote && stored == Stored::New {
            self.before_edits = None;
        }
        match (outcome, history_before) {
            (Outcome::Acknowledged { .. }, _) | (_, None) => {
                self.unsettled.clear();
                // After a restore, the backup is still the restored version, unless more was done.
                if wrote && (!was_corrupt || recovery_line(&self.current).is_none()) {
                    self.backup = Some(before);
                }
            }
            (Outcome::Died(CrashKind::PowerLoss), Some(_)) => {
                // Only the current version is left.
                self.unsettled.clear();
                self.forget_backup();
            }
            (Outcome::Errored { .. } | Outcome::Died(CrashKind::Kill), Some(history)) => {
                if !was_corrupt && stored == Stored::New && wrote {
                    self.unsettled.push((before, history));
                }
                self.forget_backup();
            }
        }
    }

    /// A write that broke off may have replaced or removed the backup.
    fn forget_backup(&mut self) {
        if !self.corrupt {
            self.backup = None;
        }
    }

    fn tell_worker(&mut self, n: usize, commands: Vec<Command>, outcome: &Outcome) {
        let worker = &mut self.workers[n];
        match outcome {
            Outcome::Acknowledged { replies, .. } => {
                if self.random.percent(4) {
                    // The commands were applied, but the process died before it received the
                    // answer.
                    worker.dies(Some(commands), &mut self.random);
                    return;
                }
                for (command, reply) in commands.iter().zip(replies) {
                    match reply {
                        Ok(reply) => worker.hears(command, reply),
                        Err(_) if self.random.percent(30) => worker.lost.extend(worker.held.take()),
                        Err(_) => {}
                    }
                }
            }
            Outcome::Errored { .. } => {
                worker.unheard = Some(commands).filter(|_| self.random.percent(70));
            }
            Outcome::Died(CrashKind::Kill) => worker.dies(Some(commands), &mut self.random),
            Outcome::Died(CrashKind::PowerLoss) => {
                worker.dies(Some(commands), &mut self.random);
                self.everybody_restarts();
            }
        }
    }
}

/// Computes the result of the decisions alone.
fn expect(before: &Ledger, now: Timestamp, commands: &[Command]) -> Expected {
    let mut ledger = before.clone();
    let mut replies = Vec::new();
    let mut facts: Vec<Fact> = Vec::new();
    let mut touched = false;
    for command in commands {
        match decide(&ledger, now, command) {
            Ok(change) => {
                touched |= !change.is_empty();
                ledger.put_in(&change);
                facts.extend(change.facts);
                replies.push(Ok(change.reply));
            }
            Err(refusal) => replies.push(Err(refusal)),
        }
    }
    let session = ledger.head().session_count;
    let lines = facts.iter().filter_map(|f| f.log_line(now, session));
    let lines = lines.map(|l| l.to_string()).collect();
    Expected { ledger, replies, lines, touched }
}

/// Returns the only line whose text is not known in advance, because it names the archived file.
/// The ledger remembers it if the backup was restored and nothing else was done since.
fn recovery_line(ledger: &Ledger) -> Option<&String> {
    ledger.head().log_tail.first().filter(|line| is_recovery(line))
}

fn is_recovery(line: &str) -> bool {
    line.contains("action=\"restore harness-tasks.json")
}

fn find_recovery_line(ledger: &Ledger, log: &[u8]) -> Result<String, Violation> {
    let log = String::from_utf8_lossy(log);
    let in_log = || log.lines().rev().find(|l| is_recovery(l)).map(str::to_owned);
    recovery_line(ledger).cloned().or_else(in_log).ok_or_else(|| Violation {
        checker: "backup_restores",
        what: "there is no RECOVERY line".into(),
    })
}
