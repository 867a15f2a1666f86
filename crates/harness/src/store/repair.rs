//! What a person can request after damage: the newest version of the ledger, or a new one.

use std::io;

use harness_core::{
    Fact, Ledger, Timestamp,
    fact::Source,
    format::{self, Document},
    ledger::Head,
    task::Status,
};

use super::{
    Applied, FileStore, StoreError, disk::File, file::stamp, receipts, restore::Candidate,
    version::Known,
};
use crate::home::Home;

/// The result of [`FileStore::bring_back`].
#[derive(Debug)]
pub struct Restored {
    /// The source of the ledger; `None` if the existing one is the newest.
    pub from: Option<Source>,
    /// The number of tasks in it.
    pub tasks: usize,
    /// The path of the replaced version, relative to the root.
    pub archived: Option<String>,
    /// The other files that were restored.
    pub files: Vec<String>,
    /// Completed tasks whose receipt is lost.
    pub without_receipt: Vec<String>,
    /// Warnings for a person.
    pub warnings: Vec<String>,
}

/// The result of [`FileStore::start_over`].
#[derive(Debug)]
pub struct Fresh {
    /// The paths of the old files, relative to the root.
    pub archived: Vec<String>,
    /// Warnings for a person.
    pub warnings: Vec<String>,
}

impl FileStore {
    /// Restores the newest version that harness wrote. The existing file is archived, whatever it
    /// contains.
    pub fn bring_back(&mut self, now: Timestamp) -> Result<Restored, StoreError> {
        let mut applied = Applied::default();
        let _held = self.enter(&mut applied.warnings)?;
        let found = self.disk.read(File::Ledger)?;
        let read = found.as_ref().and_then(|(bytes, _)| format::read(bytes).ok());
        let mut archived = None;
        let (known, from) = match (self.newest_sealed(read)?, &found) {
            (Sought::AsItIs(known), _) => (known, None),
            (Sought::Other(Candidate { mut ledger, document, from }), found) => {
                ledger.skip_epochs();
                if let Some((bytes, _)) = found {
                    self.disk.ensure_home()?;
                    let name = format!("harness-tasks.{}.replaced", stamp(now));
                    archived =
                        Some(format!("{}/{}", Home::ARCHIVE, self.disk.archive(&name, bytes)?));
                }
                self.disk.make_marker()?;
                (Known::new(ledger, document, None), Some(from))
            }
            (Sought::Nothing, Some(_)) => {
                let backup = self.why_no_backup()?;
                let ledger = "it cannot be read, and the journal has no version".to_owned();
                return Err(StoreError::Unrecoverable { ledger, backup });
            }
            (Sought::Nothing, None) => {
                return Err(StoreError::NoLedger { root: self.root.clone() });
            }
        };
        let mut known = known;
        let mut facts = self.files_anew(&mut known)?;
        let files = facts.iter().filter_map(|fact| match fact {
            Fact::FilesRestored { what, .. } => Some(what.clone()),
            _ => None,
        });
        let files = files.collect();
        self.finish_log(known.ledger.head())?;
        if let Some(from) = from {
            let reason = match &archived {
                Some(path) => format!("asked for; the previous file is {path}"),
                None => "asked for; harness-tasks.json was gone".to_owned(),
            };
            facts.insert(0, Fact::LedgerRestored { from, reason });
        }
        if !facts.is_empty() {
            known = self.put_back(now, known, facts, &[], &mut applied)?;
        }
        let without_receipt = self.without_receipt(&known.ledger)?;
        let tasks = known.ledger.len();
        self.known = Some(known);
        Ok(Restored { from, tasks, archived, files, without_receipt, warnings: applied.warnings })
    }

    /// Returns the existing ledger if it is the newest version that harness wrote, and otherwise
    /// that version.
    fn newest_sealed(&mut self, read: Option<(Ledger, Document)>) -> Result<Sought, StoreError> {
        self.known = None;
        let newest = self.newest()?;
        let Some((ledger, mut document)) = read else {
            return Ok(newest.map_or(Sought::Nothing, Sought::Other));
        };
        let identity = self.disk.identity(File::Ledger)?;
        let sealed = self.key.as_ref().map(|key| document.seal(key));
        let state = document.state();
        let ours = sealed == Some(format::Seal::Fits);
        let other = newest.filter(|newest| {
            let mut theirs = newest.document.clone();
            match newest.from {
                Source::Journal => {
                    !ours && theirs.state() != state || theirs.revision() > document.revision()
                }
                Source::Backup => sealed.is_some() && !ours && self.wrote(&newest.document),
                Source::Memory => false,
            }
        });
        Ok(other
            .map_or_else(|| Sought::AsItIs(Known::new(ledger, document, identity)), Sought::Other))
    }

    fn without_receipt(&self, ledger: &Ledger) -> io::Result<Vec<String>> {
        let mut missing = Vec::new();
        for task in ledger.tasks().filter(|task| task.status() == Status::Completed) {
            let Some(epoch) = task.epoch else { continue };
            if self.disk.receipt(&receipts::name(&task.id, epoch))?.is_none() {
                missing.push(task.id.to_string());
            }
        }
        Ok(missing)
    }

    /// Archives everything that is left of a ledger and creates a new one. Its epochs continue
    /// after those of the old one, so that old receipts belong to no new claim.
    pub fn start_over(&mut self, now: Timestamp) -> Result<Fresh, StoreError> {
        let mut warnings = Vec::new();
        let _held = self.enter(&mut warnings)?;
        let mut archived = Vec::new();
        let mut head = Head::new(now);
        self.disk.ensure_home()?;
        let ledger = self.disk.read(File::Ledger)?.map(|(bytes, _)| bytes);
        let read = ledger.as_ref().and_then(|bytes| format::read(bytes).ok());
        let newest = self.newest()?.map(|candidate| (candidate.ledger, candidate.document));
        let mut revision = 0;
        for (mut old, document) in read.into_iter().chain(newest) {
            old.skip_epochs();
            head.epoch = head.epoch.max(old.epoch());
            revision = revision.max(document.revision());
        }
        for (file, name) in [
            (File::Ledger, "harness-tasks"),
            (File::Backup, "harness-tasks.bak"),
            (File::Journal, "journal"),
        ] {
            let found = match file {
                File::Journal if !self.disk.journals() => None,
                file => self.disk.read(file)?,
            };
            if let Some((bytes, _)) = found {
                let name = format!("{name}.{}.old", stamp(now));
                archived.push(format!("{}/{}", Home::ARCHIVE, self.disk.archive(&name, &bytes)?));
            }
        }
        self.known = None;
        self.found(now, head, revision)?;
        Ok(Fresh { archived, warnings })
    }
}

enum Sought {
    AsItIs(Known),
    Other(Candidate),
    Nothing,
}
