//! A ledger that is missing or broken, and the files beside it: what is left of them, and how they
//! are restored.

use std::io;

use harness_core::{
    Category, Command, Fact, Ledger, Timestamp, decide,
    fact::Source,
    format::{
        self, Document,
        journal::{self, Replayed},
    },
    log::{Kind, LogLine},
    task::{Status, Task},
};

use super::{
    Applied, FileStore, StoreError,
    disk::File,
    edits,
    file::stamp,
    journal::Made,
    log_tail,
    version::{Backup, Freshness, Known, Lost},
};
use crate::home::Home;

/// A version of the ledger that could be restored.
pub(super) struct Candidate {
    pub(super) ledger: Ledger,
    pub(super) document: Document,
    pub(super) from: Source,
}

impl Candidate {
    /// Returns the error of a command that would create a new ledger over it.
    pub(super) fn lost(&self) -> StoreError {
        StoreError::Lost { from: self.from, tasks: self.ledger.len() }
    }

    /// Decides among several versions. Of equally new ones, the first is used.
    fn is_newer_than(&self, other: &Self) -> bool {
        self.document.revision() > other.document.revision()
    }
}

impl FileStore {
    /// Returns an error if there is no ledger but one could be restored. It takes no lock.
    pub fn lost(&mut self) -> Result<(), StoreError> {
        if self.disk.identity(File::Ledger)?.is_some() {
            return Ok(());
        }
        self.newest()?.map_or(Ok(()), |candidate| Err(candidate.lost()))
    }

    /// Puts the newest version that is left in the place of a lost one.
    pub(super) fn restore(&mut self, now: Timestamp, lost: Lost) -> Result<Freshness, StoreError> {
        let Some(candidate) = self.newest()? else {
            self.known = None;
            return match lost {
                Lost::Missing => Err(StoreError::NoLedger { root: self.root.clone() }),
                Lost::Broken { why, .. } => {
                    self.log_unrecoverable(now)?;
                    let backup = self.why_no_backup()?;
                    Err(StoreError::Unrecoverable { ledger: why, backup })
                }
            };
        };
        let Candidate { mut ledger, document, from } = candidate;
        // A claim that is lost with the newest version must not share its epoch with a later one,
        // because receipts and runs are identified by it.
        ledger.skip_epochs();
        // The version that stored the last lines of the log may be gone.
        if self.disk.identity(File::Log)?.is_some() {
            self.disk.sync(File::Log)?;
        }
        let reason = match lost {
            Lost::Missing => {
                // Whatever removed the ledger also removed the marker.
                self.disk.make_marker()?;
                "harness-tasks.json was gone".to_owned()
            }
            Lost::Broken { bytes, why } => {
                self.disk.ensure_home()?;
                let name = format!("harness-tasks.{}.corrupt", stamp(now));
                let kept = self.disk.archive(&name, &bytes)?;
                format!("{why}; the broken file is .harness/archive/{kept}")
            }
        };
        self.known = Some(Known::new(ledger, document, None));
        Ok(Freshness::Restored { from, reason })
    }

    /// Returns the newest good version apart from the ledger itself.
    pub(super) fn newest(&mut self) -> Result<Option<Candidate>, StoreError> {
        let memory = self.known.take().map(|Known { ledger, document, .. }| Candidate {
            ledger,
            document,
            from: Source::Memory,
        });
        if self.is_held() && memory.is_some() {
            // No other program may write, so no file has a newer version, whatever it contains.
            return Ok(memory);
        }
        let journal = self.replayed()?.map(|Replayed { ledger, document, .. }| Candidate {
            ledger,
            document,
            from: Source::Journal,
        });
        let backup = self.disk.read(File::Backup)?;
        let backup = backup.and_then(|(bytes, _)| format::read_owned(bytes).ok());
        let backup =
            backup.map(|(ledger, document)| Candidate { ledger, document, from: Source::Backup });
        // Of the same revision, the backup comes first: a person may have edited that version before
        // harness replaced it, and the journal has it as harness wrote it.
        let mut files: Vec<_> = [backup, journal].into_iter().flatten().collect();
        // A version that harness cannot recognize as its own is used only if there is no other.
        if memory.is_some() || files.iter().any(|file| self.wrote(&file.document)) {
            files.retain(|file| self.wrote(&file.document));
        }
        let all = memory.into_iter().chain(files);
        Ok(all.reduce(|best, other| if other.is_newer_than(&best) { other } else { best }))
    }

    /// Returns the version before the last, if harness wrote it.
    pub(super) fn sealed_backup(&self) -> Result<Option<Known>, StoreError> {
        let backup = self.disk.read(File::Backup)?;
        let backup = backup.and_then(|(bytes, _)| format::read_owned(bytes).ok());
        let backup = backup.filter(|(_, document)| self.key.is_some() && self.wrote(document));
        Ok(backup.map(|(ledger, document)| Known::new(ledger, document, None)))
    }

    /// Returns whether harness wrote this version, as far as that is known.
    pub(super) fn wrote(&self, document: &Document) -> bool {
        let seal = self.key.as_ref().map(|key| document.clone().seal(key));
        seal.is_none_or(|seal| seal == format::Seal::Fits)
    }

    pub(super) fn replayed(&self) -> Result<Option<Replayed>, StoreError> {
        if !self.disk.journals() {
            return Ok(None);
        }
        let bytes = match self.disk.read(File::Journal) {
            Ok(bytes) => bytes,
            // A journal that may not be read here is treated as missing. Any other failure may be
            // temporary, and continuing without the newest version would lose acknowledged changes.
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => None,
            Err(why) => return Err(why.into()),
        };
        Ok(bytes.and_then(|(bytes, _)| journal::replay(&bytes)))
    }

    pub(super) fn why_no_backup(&self) -> io::Result<String> {
        Ok(match self.disk.read(File::Backup)? {
            None => "there is no harness-tasks.json.bak".to_owned(),
            Some((bytes, _)) => match format::read(&bytes) {
                Ok(_) => "harness-tasks.json.bak was not used".to_owned(),
                Err(e) => format!("harness-tasks.json.bak cannot be used either: {e}"),
            },
        })
    }

    fn log_unrecoverable(&mut self, now: Timestamp) -> io::Result<()> {
        let tail = self.disk.tail(File::Log, 64 * 1024)?;
        let tail = String::from_utf8_lossy(&tail);
        let last = tail.lines().rev().find_map(LogLine::parse);
        let line = LogLine {
            time: now,
            session: last.map_or(0, |l| l.session),
            kind: Kind::Error,
            task: None,
            category: Some(Category::EnvSetup),
            message: "harness-tasks.json corrupted and unrecoverable".into(),
        };
        self.end_log_line()?;
        self.append_to_log(format!("{line}\n").as_bytes())
    }

    /// Returns the facts to report about the state of the ledger, and the flags to raise.
    pub(super) fn report(&self, freshness: Freshness, known: &Ledger) -> (Vec<Fact>, Vec<Command>) {
        match freshness {
            Freshness::AsKnown => (Vec::new(), Vec::new()),
            Freshness::Restored { from, reason } => {
                let raised = match self.is_held() {
                    true => edits::raised(
                        known,
                        &format!("the ledger was destroyed from outside and put back: {reason}"),
                    ),
                    false => Vec::new(),
                };
                (vec![Fact::LedgerRestored { from, reason }], raised)
            }
            Freshness::Refused { message } => (Vec::new(), edits::raised(known, &message)),
            Freshness::Taken { what, unproven } => edits::report(self.in_doubt, &what, unproven),
        }
    }

    /// Writes the restored version as a change of its own. So the backup is never more than one
    /// transaction older than the destroyed version, even if that happens twice.
    pub(super) fn put_back(
        &mut self,
        now: Timestamp,
        mut known: Known,
        mut facts: Vec<Fact>,
        raised: &[Command],
        applied: &mut Applied,
    ) -> Result<Known, StoreError> {
        let mut made = Made { before: Some(known.state()), ..Made::default() };
        for command in raised {
            // A flag is never refused.
            let Ok(change) = decide(&known.ledger, now, command) else { continue };
            self.put_in(now, &change, &mut known)?;
            made.touched.note(&change);
            facts.extend(change.facts);
        }
        let session = known.ledger.head().session_count;
        let lines: Vec<String> = facts
            .iter()
            .filter_map(|fact| fact.log_line(now, session).map(|line| line.to_string()))
            .collect();
        for fact in &facts {
            applied.warnings.extend(words(fact));
        }
        applied.facts.extend(facts);
        self.end_log_line()?;
        known.ledger.set_log_tail(lines, self.disk.size(File::Log)?);
        known.state = None;
        applied.warnings.extend(self.write(known, made, Backup::None)?);
        let known = self.known.take();
        let known = known.ok_or_else(|| StoreError::NoLedger { root: self.root.clone() })?;
        self.finish_log(known.ledger.head())?;
        Ok(known)
    }

    /// Restores the log and the receipts from the journal, if they are missing. Returns the facts
    /// to report.
    pub(super) fn files_anew(&self, known: &mut Known) -> Result<Vec<Fact>, StoreError> {
        if !self.disk.journals() {
            return Ok(Vec::new());
        }
        let head = known.ledger.head();
        // The first lines of a log may merely not be written yet.
        let begun = head.log_at > 0 || head.log_tail.is_empty();
        let log_is_gone = begun && self.disk.identity(File::Log)?.is_none();
        let completed = |task: &Task| task.status() == Status::Completed;
        let receipts_are_gone = !self.disk.has_receipts()? && known.ledger.tasks().any(completed);
        if !log_is_gone && !receipts_are_gone {
            return Ok(Vec::new());
        }
        let kept = match self.disk.read(File::Journal) {
            Ok(Some((bytes, _))) => journal::known(&bytes),
            Ok(None) | Err(_) => return Ok(Vec::new()),
        };
        let mut what = Vec::new();
        if log_is_gone && !kept.log.is_empty() {
            self.disk.append(File::Log, &log_tail::text(&kept.log))?;
            self.disk.sync(File::Log)?;
            // The lines are among the restored ones, and their position has changed.
            known.ledger.set_log_tail(Vec::new(), 0);
            what.push(Home::LOG.to_owned());
        }
        // The folder is created so that the next look does not search again.
        self.disk.make_receipts()?;
        let mut count = 0;
        for (name, line) in &kept.receipts {
            if self.disk.receipt(name)?.is_none() {
                self.disk.keep_receipt(name, journal::receipt_file(line).as_bytes())?;
                count += 1;
            }
        }
        match count {
            0 => {}
            1 => what.push("1 receipt".to_owned()),
            more => what.push(format!("{more} receipts")),
        }
        if what.is_empty() {
            return Ok(Vec::new());
        }
        let reason = "gone, but kept in the journal".to_owned();
        Ok(vec![Fact::FilesRestored { what: what.join(", "), reason }])
    }
}

/// Returns the message for a person about something that was restored.
pub(super) fn words(fact: &Fact) -> Option<String> {
    match fact {
        Fact::LedgerRestored { from, reason } => Some(match from {
            Source::Backup => format!(
                "harness-tasks.json was not readable and was restored from its backup: {reason}"
            ),
            Source::Journal => {
                format!("harness-tasks.json was restored from the journal: {reason}")
            }
            Source::Memory => format!("harness-tasks.json was written back: {reason}"),
        }),
        Fact::FilesRestored { what, reason } => Some(format!("restored {what}: {reason}")),
        Fact::Flagged { message, .. } | Fact::Warned { message, .. } => Some(message.clone()),
        _ => None,
    }
}
