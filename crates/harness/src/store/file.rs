//! The store over `harness-tasks.json`.
//!
//! A transaction: take the lock; look whether the file is still the one we know, else read it;
//! finish the log lines of the last change; decide; write `.tmp`, keep `.bak`, rename, make the
//! directory durable; only then answer. A reader never sees half a file, and an error on the way
//! leaves the file as it was.

use std::{
    io,
    path::{Path, PathBuf},
};

use harness_core::{
    Category, Change, Command, Fact, Ledger, Timestamp, decide,
    format::{self, Document, FormatError},
    ledger::Head,
    log::{Kind, LogLine},
};

use super::{
    Applied, Store, StoreError, alive,
    disk::{Disk, File, Identity, RealDisk},
    lock::{Acquired, LockError, StateLock, Wait},
    log_tail,
};

/// The ledger in `harness-tasks.json`, its log beside it.
///
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use harness::{
///     clock::{Clock, SystemClock},
///     core::{
///         Command, Reply, TaskId,
///         command::{Add, Edit},
///     },
///     store::{Created, FileStore, Locking, Writer, lock::Wait, look},
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let root = tempfile::tempdir()?;
/// let locking = Locking::Each(Wait::For(Duration::from_secs(5)));
/// let mut store = FileStore::open(root.path(), locking)?;
/// assert_eq!(store.create(SystemClock.now())?, Created::New);
///
/// // A process that lives longer gives its store to a writer.
/// let publish = Box::new(|facts: &[_], _: &[String]| println!("{facts:?}"));
/// let writer = Writer::start(store, Arc::new(SystemClock), publish)?;
/// let id = TaskId::parse("parser")?;
/// let add = Add {
///     id: Some(id.clone()),
///     title: "write the parser".to_owned(),
///     fields: Edit { validation_command: Some("cargo test".to_owned()), ..Edit::nothing(id.clone()) },
/// };
/// assert_eq!(writer.apply(Command::Add(add))?, Reply::Task(id.clone()));
///
/// // It is on the disk: whoever only looks needs neither writer nor lock.
/// assert!(look(root.path())?.contains(&id));
/// # let hash = harness::store::lock::root_hash(&root.path().canonicalize()?);
/// # std::fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"))?;
/// # Ok(())
/// # }
/// ```
pub struct FileStore {
    root: PathBuf,
    disk: Box<dyn Disk>,
    locking: Locking,
    known: Option<Known>,
}

/// Who keeps others out while a transaction runs.
pub enum Locking {
    /// Each transaction for itself, waiting this long.
    Each(Wait),
    /// A session that holds the lock for its whole life.
    Held(StateLock),
    /// The caller sees to it (the simulator).
    Elsewhere,
}

/// The ledger as we know it, and the file it was read from or written to.
struct Known {
    ledger: Ledger,
    document: Document,
    identity: Identity,
}

/// Whether [`FileStore::create`] made a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// There was none.
    New,
    /// It was there; nothing was changed.
    Existed,
}

/// The ledger as it stands, without lock or repair: for those who only look.
pub fn look(root: &Path) -> Result<Ledger, StoreError> {
    let disk = RealDisk::open(root)?;
    let Some((bytes, _)) = disk.read(File::Ledger)? else {
        return Err(StoreError::NoLedger { root: root.to_owned() });
    };
    format::read_ledger(&bytes).map_err(StoreError::Format)
}

impl FileStore {
    /// The store of the state root `root`, a directory that exists. Reads nothing yet: a missing ledger
    /// is an error of the first transaction.
    pub fn open(root: &Path, locking: Locking) -> Result<Self, StoreError> {
        Ok(Self::on(root, Box::new(RealDisk::open(root)?), locking))
    }

    /// Over any disk: the simulator has one that crashes.
    #[doc(hidden)]
    pub fn on(root: &Path, disk: Box<dyn Disk>, locking: Locking) -> Self {
        Self { root: root.to_owned(), disk, locking, known: None }
    }

    /// Makes the ledger, the log and the marker, unless there is a ledger.
    pub fn create(&mut self, now: Timestamp) -> Result<Created, StoreError> {
        let _held = self.enter(&mut Vec::new())?;
        if self.disk.identity(File::Ledger)?.is_some() {
            // Whoever made it may have died before it was durable.
            self.disk.sync_root()?;
            return Ok(Created::Existed);
        }
        self.disk.ensure_home()?;
        let project = self.root.display().to_string();
        let line = Fact::Initialized { project }.log_line(now, 0);
        let mut ledger = Ledger::new(Head::new(now), Vec::new()).map_err(shape)?;
        let lines = line.map(|l| l.to_string()).into_iter().collect();
        ledger.set_log_tail(lines, self.disk.size(File::Log)?);
        let document = Document::new(&ledger);
        // The marker means nothing without a ledger; a ledger without it would stay so.
        self.disk.make_marker()?;
        self.write(ledger, document, Backup::None)?;
        Ok(Created::New)
    }

    fn enter(&self, warnings: &mut Vec<String>) -> Result<Option<StateLock>, StoreError> {
        match &self.locking {
            Locking::Each(wait) => {
                let Acquired { guard, warnings: told } = StateLock::acquire(&self.root, *wait)?;
                warnings.extend(told.iter().map(ToString::to_string));
                Ok(Some(guard))
            }
            Locking::Held(_) | Locking::Elsewhere => Ok(None),
        }
    }

    /// Makes `known` the file as it is now. Edits by hand are respected; a file that is no JSON any
    /// more is replaced by its backup.
    fn refresh(&mut self, now: Timestamp) -> Result<Freshness, StoreError> {
        let identity = self.disk.identity(File::Ledger)?;
        if self.known.as_ref().is_some_and(|k| Some(k.identity) == identity) {
            return Ok(Freshness::AsKnown);
        }
        self.known = None;
        let Some((bytes, identity)) = self.disk.read(File::Ledger)? else {
            return Err(StoreError::NoLedger { root: self.root.clone() });
        };
        // Whoever put it there may have died before the name was durable. Nothing is answered, and
        // no log line written, on the strength of a version that a power loss would take back.
        self.disk.sync_root()?;
        match format::read(&bytes) {
            Ok((ledger, document)) => {
                self.known = Some(Known { ledger, document, identity });
                Ok(Freshness::AsKnown)
            }
            Err(FormatError::Corrupt(why)) => self.restore(now, &bytes, identity, why),
            Err(other) => Err(StoreError::Format(other)),
        }
    }

    fn restore(
        &mut self,
        now: Timestamp,
        broken: &[u8],
        identity: Identity,
        why: String,
    ) -> Result<Freshness, StoreError> {
        let backup = match self.disk.read(File::Backup)? {
            None => Err("there is no harness-tasks.json.bak".to_owned()),
            Some((bytes, _)) => format::read(&bytes)
                .map_err(|e| format!("harness-tasks.json.bak does not help: {e}")),
        };
        let (mut ledger, document) = match backup {
            Ok(parsed) => parsed,
            Err(backup) => {
                self.log_unrecoverable(now)?;
                return Err(StoreError::Unrecoverable { ledger: why, backup });
            }
        };
        // A claim that is lost with the newest version must not share its epoch with a later one:
        // receipts and runs are kept by it.
        ledger.skip_epochs();
        // The version that remembered the last lines of the log is gone.
        if self.disk.identity(File::Log)?.is_some() {
            self.disk.sync(File::Log)?;
        }
        self.disk.ensure_home()?;
        let name = format!("harness-tasks.{}.corrupt", stamp(now));
        let kept = self.disk.archive(&name, broken)?;
        self.known = Some(Known { ledger, document, identity });
        Ok(Freshness::Restored {
            reason: format!("{why}; the broken file is .harness/archive/{kept}"),
        })
    }

    fn log_unrecoverable(&self, now: Timestamp) -> io::Result<()> {
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
        log_tail::end_line(&*self.disk, File::Log)?;
        self.disk.append(File::Log, format!("{line}\n").as_bytes())
    }

    /// Decides all commands on one working copy. `known` is taken out: it comes back only when the
    /// file holds what was decided.
    fn decide(
        &mut self,
        now: Timestamp,
        commands: &[Command],
        applied: &mut Applied,
        known: &mut Known,
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

    /// Gives the path of the archived ledger, if the change throws it away.
    fn put_in(
        &self,
        now: Timestamp,
        change: &Change,
        known: &mut Known,
    ) -> io::Result<Option<PathBuf>> {
        let mut archived = None;
        if change.archives() {
            self.disk.ensure_home()?;
            let name = format!("harness-tasks.{}.json", stamp(now));
            let text = known.document.render(&known.ledger);
            let kept = self.disk.archive(&name, text.as_bytes())?;
            archived = Some(Path::new(".harness/archive").join(kept));
        }
        known.ledger.put_in(change);
        known.document.put_in(change);
        Ok(archived)
    }

    /// Makes `ledger` the file, durable, then appends its log lines. `known` is set only at the
    /// end: after an error on the way the next transaction reads what is there.
    fn write(
        &mut self,
        ledger: Ledger,
        mut document: Document,
        backup: Backup,
    ) -> Result<Vec<String>, StoreError> {
        self.known = None;
        let text = document.render(&ledger);
        self.disk.write_tmp(text.as_bytes())?;
        match backup {
            Backup::Keep => self.disk.keep_backup()?,
            Backup::None => {}
        }
        if let Locking::Held(lock) = &self.locking
            && !lock.still_held()
        {
            return Err(StoreError::LockLost);
        }
        self.disk.publish()?;
        self.disk.sync_root()?;
        let mut warnings = Vec::new();
        let lines = log_tail::text(&ledger.head().log_tail);
        if !lines.is_empty()
            && let Err(e) = self.disk.append(File::Log, &lines)
        {
            // The ledger remembers the lines: the next change appends them.
            warnings
                .push(format!("the change is made, but its log lines are not yet written: {e}"));
        }
        if let Ok(Some(identity)) = self.disk.identity(File::Ledger) {
            self.known = Some(Known { ledger, document, identity });
        }
        Ok(warnings)
    }

    fn transaction(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        let mut applied = Applied::default();
        let held = self.enter(&mut applied.warnings)?;
        let freshness = self.refresh(now)?;
        let Some(mut known) = self.known.take() else {
            return Err(StoreError::NoLedger { root: self.root.clone() });
        };
        log_tail::finish(&*self.disk, known.ledger.head())?;
        if let Freshness::Restored { reason } = freshness {
            known = self.put_back(now, known, reason, &mut applied)?;
        }
        let restored = applied.facts.len();
        let touched = self.decide(now, commands, &mut applied, &mut known)?;
        match touched {
            Touched::Ledger => {}
            Touched::Nothing => {
                self.known = Some(known);
                self.tell_trajectory(now, restored, &mut applied);
                return Ok(applied);
            }
        }
        let session = known.ledger.head().session_count;
        let lines = applied.facts[restored..].iter().filter_map(|f| f.log_line(now, session));
        let lines = lines.map(|l| l.to_string()).collect();
        log_tail::end_line(&*self.disk, File::Log)?;
        known.ledger.set_log_tail(lines, self.disk.size(File::Log)?);
        if held.as_ref().is_some_and(|h| !h.still_held()) {
            return Err(StoreError::LockLost);
        }
        let warnings = self.write(known.ledger, known.document, Backup::Keep)?;
        applied.warnings.extend(warnings);
        drop(held);
        let told = applied.facts.len();
        self.tell_trajectory(now, told, &mut applied);
        Ok(applied)
    }

    /// Makes the backup the ledger again, as a change of its own: so the backup is never more than
    /// one transaction older than what is destroyed, also when that happens twice.
    fn put_back(
        &mut self,
        now: Timestamp,
        mut known: Known,
        reason: String,
        applied: &mut Applied,
    ) -> Result<Known, StoreError> {
        applied.warnings.push(format!(
            "harness-tasks.json was not readable and was restored from its backup: {reason}"
        ));
        let fact = Fact::LedgerRestored { reason };
        let line = fact.log_line(now, known.ledger.head().session_count);
        applied.facts.push(fact);
        log_tail::end_line(&*self.disk, File::Log)?;
        let lines = line.map(|l| l.to_string()).into_iter().collect();
        known.ledger.set_log_tail(lines, self.disk.size(File::Log)?);
        applied.warnings.extend(self.write(known.ledger, known.document, Backup::None)?);
        let known = self.known.take();
        let known = known.ok_or_else(|| StoreError::NoLedger { root: self.root.clone() })?;
        log_tail::finish(&*self.disk, known.ledger.head())?;
        Ok(known)
    }

    /// The first `count` facts; the others changed nothing.
    fn tell_trajectory(&self, now: Timestamp, count: usize, applied: &mut Applied) {
        let mut lines = String::new();
        for fact in &applied.facts[..count] {
            lines.push_str(&fact.trajectory(now).to_string());
            lines.push('\n');
        }
        if lines.is_empty() {
            return;
        }
        let told = self.disk.ensure_home();
        let told = told.and_then(|()| log_tail::end_line(&*self.disk, File::Trajectory));
        let told = told.and_then(|()| self.disk.append(File::Trajectory, lines.as_bytes()));
        if let Err(e) = told {
            applied.warnings.push(format!("the change is made, but not in the trajectory: {e}"));
        }
    }
}

impl Store for FileStore {
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        self.transaction(now, commands)
    }

    fn ledger(&mut self) -> Result<&Ledger, StoreError> {
        let identity = self.disk.identity(File::Ledger)?;
        if self.known.as_ref().is_none_or(|k| Some(k.identity) != identity) {
            self.known = None;
            let Some((bytes, identity)) = self.disk.read(File::Ledger)? else {
                return Err(StoreError::NoLedger { root: self.root.clone() });
            };
            let (ledger, document) = format::read(&bytes).map_err(StoreError::Format)?;
            self.known = Some(Known { ledger, document, identity });
        }
        match &self.known {
            Some(known) => Ok(&known.ledger),
            None => Err(StoreError::NoLedger { root: self.root.clone() }),
        }
    }
}

enum Freshness {
    AsKnown,
    Restored { reason: String },
}

#[derive(Clone, Copy)]
enum Touched {
    Nothing,
    Ledger,
}

/// Whether what is in the place of the ledger is worth keeping.
enum Backup {
    Keep,
    None,
}

/// A time as part of a file name.
fn stamp(now: Timestamp) -> String {
    now.to_string().replace([':', '-'], "")
}

fn shape(e: harness_core::ledger::DuplicateTask) -> StoreError {
    StoreError::Format(FormatError::Shape { place: String::new(), problem: e.to_string() })
}

impl StoreError {
    /// Whether another process holds the lock.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Lock(LockError::Busy { .. } | LockError::Unseen { .. }))
    }
}
