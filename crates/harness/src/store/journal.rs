//! Writes each change of the ledger to the journal.
//!
//! The ledger is durable before, so nothing here can make a transaction fail. A failed write is
//! reported once, and the next writer catches up with a snapshot.

use std::io;

use harness_core::{
    Fact, Ledger, TaskId,
    format::{
        Document, State,
        journal::{self, Ending, Known, Receipts, Touched},
    },
    task::Status,
};

use super::{
    disk::{Disk, File},
    receipts,
};
use crate::home::FileStamp;

/// The end of the journal when this process last wrote it.
#[derive(Debug, Default)]
pub(super) struct Journal {
    at: Option<(FileStamp, Ending)>,
    warned: bool,
}

/// The changes of a transaction, for the journal.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The version that it started from; `None` if there was none, or if it is not known.
    pub(super) before: Option<State>,
    pub(super) touched: Touched,
    pub(super) receipts: Receipts,
}

impl Journal {
    /// Appends a change. If the journal does not end with the previous version, it starts again
    /// with a snapshot. Returns a warning, if there is one.
    pub(super) fn follow(
        &mut self,
        disk: &dyn Disk,
        ledger: &Ledger,
        document: &mut Document,
        made: &Made,
    ) -> Option<String> {
        if !disk.journals() {
            return None;
        }
        let failed = self.write(disk, ledger, document, made).err()?;
        self.at = None;
        let first = !std::mem::replace(&mut self.warned, true);
        first.then(|| {
            format!(
                "the change was made, but not written to the journal, its second copy: {failed}"
            )
        })
    }

    fn write(
        &mut self,
        disk: &dyn Disk,
        ledger: &Ledger,
        document: &mut Document,
        made: &Made,
    ) -> io::Result<()> {
        let identity = disk.identity(File::Journal)?;
        let ending = match (&self.at, identity) {
            (Some((known, ending)), Some(found)) if *known == found => Some(*ending),
            (_, Some(_)) => Ending::of(&disk.tail(File::Journal, journal::ENDING_BYTES)?),
            (_, None) => None,
        };
        let size = identity.map_or(0, |found| found.size);
        let line = match ending {
            Some(ending) if Some(ending.state) == made.before && !ending.outgrown(size) => {
                let line = journal::change(document, &made.touched, &made.receipts, &ending, size);
                disk.append(File::Journal, line.as_bytes())?;
                line
            }
            _ => {
                let mut known = match disk.read(File::Journal)? {
                    Some((bytes, _)) => journal::known(&bytes),
                    None => Known::default(),
                };
                if ending.is_none_or(|ending| ending.revision + 1 < document.revision()) {
                    // There was no journal, or it could not be written for some time.
                    let adopted = adopted(disk, ledger)?;
                    known.log = adopted.log;
                    for (name, line) in adopted.receipts {
                        known.receipts.entry(name).or_insert(line);
                    }
                }
                known.receipts.extend(made.receipts.clone());
                let tail = &ledger.head().log_tail;
                if !known.log.ends_with(tail) {
                    known.log.extend(tail.iter().cloned());
                }
                let line = journal::snapshot(document, &known.log, &known.receipts);
                disk.replace_journal(line.as_bytes())?;
                line
            }
        };
        let written = Ending::of(line.as_bytes());
        self.at = disk.identity(File::Journal)?.zip(written);
        Ok(())
    }
}

/// Takes over everything from before there was a journal, without a check.
fn adopted(disk: &dyn Disk, ledger: &Ledger) -> io::Result<Known> {
    let log = disk.read(File::Log)?.map(|(bytes, _)| bytes).unwrap_or_default();
    let log = String::from_utf8_lossy(&log).lines().map(str::to_owned).collect();
    let mut known = Known { log, receipts: Receipts::new() };
    for task in ledger.tasks().filter(|task| task.status() == Status::Completed) {
        let Some(epoch) = task.epoch else { continue };
        keep(disk, &receipts::name(&task.id, epoch), &mut known.receipts)?;
    }
    Ok(known)
}

/// Returns the tasks that were completed.
pub(super) fn completed(facts: &[Fact]) -> Vec<&TaskId> {
    let completed = facts.iter().filter_map(|fact| match fact {
        Fact::Completed { task, .. } => Some(task),
        _ => None,
    });
    completed.collect()
}

/// Returns the receipts of the current claims of `tasks`. They were made durable before.
pub(super) fn receipts_of(
    disk: &dyn Disk,
    ledger: &Ledger,
    tasks: &[&TaskId],
) -> io::Result<Receipts> {
    let mut kept = Receipts::new();
    for task in tasks {
        let Some(epoch) = ledger.task(task).and_then(|task| task.epoch) else { continue };
        keep(disk, &receipts::name(task, epoch), &mut kept)?;
    }
    Ok(kept)
}

fn keep(disk: &dyn Disk, name: &str, kept: &mut Receipts) -> io::Result<()> {
    let line = disk.receipt(name)?.and_then(|bytes| journal::receipt_line(&bytes));
    kept.extend(line.map(|line| (name.to_owned(), line)));
    Ok(())
}
