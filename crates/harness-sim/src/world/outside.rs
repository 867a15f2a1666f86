//! Events in a world besides its workers: the clock, the power, a person who edits the ledger, and
//! other programs that write to the log.

use harness::store::disk::File;
use harness_core::{Ledger, Timestamp};

use super::World;
use crate::{
    checkers::{Violation, count_lines, same},
    person,
};

impl World {
    pub(crate) fn clock_jumps(&mut self) {
        let jump = [30, 120, 4000, -90][self.random.below(4)];
        self.now += jump;
        self.story.tell(|| format!("the clock jumps by {jump} s"));
    }

    pub(crate) fn peer_writes(&mut self) {
        let time = Timestamp::from_seconds(self.now);
        let number = self.ids.number();
        let end = if self.random.percent(20) { "" } else { "\n" };
        let line = format!("[{time}] [SESSION-0] WARN peer-{number} was here{end}");
        self.story.tell(|| format!("in the log: {line:?}"));
        self.disk.add_lines(File::Log, line.as_bytes());
    }

    pub(crate) fn power_fails(&mut self) -> Result<(), Violation> {
        self.disk.lose_power();
        self.tally.power_losses += 1;
        let after = self.look()?;
        self.story.tell(|| "the power fails".into());
        if !same(&after, &self.current) {
            let Some(version) = self.unsettled.iter().position(|(l, _)| same(&after, l)) else {
                let what = "a power loss changed what was acknowledged".into();
                return Err(Violation { checker: "acknowledged_is_stored", what });
            };
            self.story.tell(|| format!("the ledger falls back by {version}"));
            self.history = self.unsettled.swap_remove(version).1;
        }
        self.current = after;
        self.unsettled.clear();
        self.everybody_restarts();
        if self.corrupt {
            self.forget_lost_lines();
        }
        Ok(())
    }

    pub(crate) fn person_edits(&mut self) -> Result<(), Violation> {
        if self.corrupt {
            return Ok(());
        }
        let bytes = self.disk.bytes(File::Ledger);
        if self.random.percent(20) && !self.disk.backup_is_ledger() {
            return self.person_garbles(&bytes);
        }
        person::edit(&bytes, &mut self.ids, &mut self.random).map_or(Ok(()), |edited| {
            self.story.tell(|| format!("a person: {}", edited.what));
            self.disk.edit(File::Ledger, edited.text.as_bytes());
            self.before_edits.get_or_insert_with(|| self.current.clone());
            self.history.notes.extend(edited.note);
            self.unsettled.clear();
            self.current = self.look()?;
            Ok(())
        })
    }

    /// Writes garbage, but only if a backup is certain to exist. The backup holds the version
    /// before the last one. So the last change is lost if the journal does not have it either,
    /// together with the lines that the log lacks.
    fn person_garbles(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        if self.backup.is_none() {
            return Ok(());
        }
        let garbage = person::garbage(bytes, &mut self.random);
        self.story.tell(|| format!("a person: saves {} bytes of garbage", garbage.len()));
        self.disk.edit(File::Ledger, &garbage);
        // The model does not follow a power loss that also takes the journal, or a process that
        // remembers a version that no file has.
        self.disk.settle_journal();
        self.everybody_restarts();
        self.corrupt = true;
        self.unsettled.clear();
        let newest = self.current.clone();
        self.current = self.look()?;
        let left = self.current.clone();
        self.history.rewound(&left);
        self.forget_lost_lines();
        let skipped = |ledger: &Ledger| {
            let mut ledger = ledger.clone();
            ledger.skip_epochs();
            ledger
        };
        let mut older = self.backup.iter().chain(&self.before_edits);
        let stored = older.any(|older| same(&left, &skipped(older)));
        if !stored && !same(&left, &skipped(&newest)) {
            let what = "neither the backup nor the journal is a version that was stored".into();
            return Err(Violation { checker: "backup_restores", what });
        }
        Ok(())
    }

    /// Drops the lines that the log lacks, because nothing remembers them while the newest version
    /// is garbled.
    pub(crate) fn forget_lost_lines(&mut self) {
        let there = count_lines(&self.disk.bytes(File::Log), &self.history.lines);
        let lost = self.history.lines.split_off(there);
        self.history.forgotten.extend(lost);
    }
}
