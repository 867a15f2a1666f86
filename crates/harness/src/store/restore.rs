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
    ledger::Head,
    log::{Kind, LogLine},
    task::{Status, Task},
};

use super::{
    Applied, FileStore, StoreError,
    disk::File,
    edits,
    file::stamp,
    journal::Made,
    log_tail, receipts,
    version::{Backup, Freshness, Known, Lost},
};
use crate::home::Home;

/// A version of the ledger that could be restored.
pub(super) struct Candidate {
    ledger: Ledger,
    document: Document,
    from: Source,
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
        let backup = backup.and_then(|(bytes, _)| format::read(&bytes).ok());
        let backup =
            backup.map(|(ledger, document)| Candidate { ledger, document, from: Source::Backup });
        let mut files: Vec<_> = [journal, backup].into_iter().flatten().collect();
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
        let backup = backup.and_then(|(bytes, _)| format::read(&bytes).ok());
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

    fn why_no_backup(&self) -> io::Result<String> {
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
        let reason = "they were gone, and the journal has them".to_owned();
        Ok(vec![Fact::FilesRestored { what: what.join(", "), reason }])
    }

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
