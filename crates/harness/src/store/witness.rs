//! The journal as evidence of what harness wrote to the log and to receipts.

use std::{collections::HashMap, io, path::Path};

use harness_core::{
    Epoch, TaskId,
    format::journal::{self, Known},
    log::LogLine,
};

use super::{
    disk::{Disk as _, File, RealDisk},
    receipts,
};
use crate::home::Outside;

/// The content of the journal of a root.
#[derive(Debug)]
pub struct Witness {
    known: Known,
}

/// The origin of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The journal has exactly this receipt.
    Harness,
    /// The journal has another one, or none.
    Foreign,
    /// The receipt does not exist.
    Missing,
}

impl Witness {
    /// Reads the journal; `None` if there is none.
    pub fn of(root: &Path, state_home: Option<&Path>) -> io::Result<Option<Self>> {
        let disk = RealDisk::open(root)?.with_journal(Outside::of_journal(root, state_home));
        if !disk.journals() {
            return Ok(None);
        }
        let bytes = disk.read(File::Journal)?;
        Ok(bytes.map(|(bytes, _)| Self { known: journal::known(&bytes) }))
    }

    /// Returns whether harness wrote the receipt of a claim.
    pub fn receipt(&self, root: &Path, task: &TaskId, epoch: Epoch) -> io::Result<Origin> {
        let name = receipts::name(task, epoch);
        let Some(bytes) = RealDisk::open(root)?.receipt(&name)? else { return Ok(Origin::Missing) };
        let line = journal::receipt_line(&bytes);
        let known = self.known.receipts.get(&name);
        Ok(if line.is_some() && line.as_ref() == known { Origin::Harness } else { Origin::Foreign })
    }

    /// Returns the lines of the log that look like ours but are not. Each line counts as often as
    /// it was written. Lines that are older than the journal are not judged.
    pub fn foreign_lines(&self, log: &str) -> Vec<String> {
        let mut ours: HashMap<&str, usize> = HashMap::new();
        for line in &self.known.log {
            *ours.entry(line).or_default() += 1;
        }
        let first = self.known.log.first();
        let begin = first.and_then(|first| log.lines().position(|line| line == first)).unwrap_or(0);
        let mut foreign = Vec::new();
        for line in log.lines().skip(begin) {
            match ours.get_mut(line) {
                Some(count) if *count > 0 => *count -= 1,
                _ if looks_like_ours(line) => foreign.push(line.to_owned()),
                _ => {}
            }
        }
        foreign
    }
}

fn looks_like_ours(line: &str) -> bool {
    // This line is written when there is no ledger that could store it.
    LogLine::parse(line)
        .is_some_and(|line| line.message != "harness-tasks.json corrupted and unrecoverable")
}
