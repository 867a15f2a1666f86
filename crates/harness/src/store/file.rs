//! The store over `harness-tasks.json`.
//!
//! A transaction has these steps: take the lock; check whether the file is still the known one,
//! otherwise read it; finish the log lines of the last change; decide; write `.tmp`, keep `.bak`,
//! rename, make the directory durable; only then answer. A reader never sees half a file, and an
//! error on the way leaves the file unchanged.

use std::{
    io,
    path::{Path, PathBuf},
};

use harness_core::{
    Change, Command, Fact, Ledger, Timestamp,
    format::{self, Document, FormatError, Key, Unreadable},
    ledger::Head,
};

use super::{
    Applied, AppliedOnce, Store, StoreError, TransactionId,
    disk::{Disk, File, RealDisk},
    edits::InDoubt,
    history::{History, NewsSince},
    journal::{Journal, Made},
    lock::{Acquired, LockError, StateLock, Wait},
    log_tail::{self, FinishedLog},
    transaction::writable,
    version::{Backup, Freshness, Known, Lost},
};
use crate::home::{Home, Outside, outside};

/// The ledger in `harness-tasks.json`, its log beside it.
///
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use harness::{
///     Project,
///     clock::{Clock, SystemClock},
///     core::{
///         Command, Reply, TaskId,
///         command::{Add, Edit},
///     },
///     store::{Created, FileStore, Locking, Observers, Transaction, Writer, lock::Wait},
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let root = tempfile::tempdir()?;
/// let locking = Locking::Each(Wait::For(Duration::from_secs(5)));
/// let mut store = FileStore::open(root.path(), locking)?;
/// assert_eq!(store.create(SystemClock.now())?, Created::New);
///
/// // A long-lived process gives its store to a writer.
/// let observers = Observers::default().with(|made: &Transaction<'_>| println!("{:?}", made.facts));
/// let writer = Writer::start(store, Arc::new(SystemClock), observers)?;
/// let id = TaskId::parse("parser")?;
/// let add = Add {
///     id: Some(id.clone()),
///     title: "write the parser".to_owned(),
///     fields: Edit { validation_command: Some("cargo test".to_owned()), ..Edit::nothing(id.clone()) },
/// };
/// assert_eq!(writer.apply(Command::Add(add))?, Reply::Task(id.clone()));
///
/// // It is on the disk: a reader needs neither writer nor lock.
/// assert!(Project::open(root.path())?.snapshot()?.contains(&id));
/// # let hash = harness::home::root_hash(&root.path().canonicalize()?);
/// # std::fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"))?;
/// # Ok(())
/// # }
/// ```
pub struct FileStore {
    pub(super) root: PathBuf,
    pub(super) disk: Box<dyn Disk>,
    pub(super) locking: Locking,
    pub(super) known: Option<Known>,
    pub(super) journal: Journal,
    pub(super) key: Option<Key>,
    /// `true` if other programs work through this process. The rows that they hold are then
    /// protected.
    pub(super) hosting: bool,
    pub(super) in_doubt: InDoubt,
    /// The version that [`Store::ledger`] found and that no transaction has judged yet.
    looked: Option<Known>,
    /// Warnings that are returned with the next transaction.
    pub(super) warnings: Vec<String>,
    /// The bytes that were appended to the log since the last successful transaction.
    pub(super) appended: Vec<u8>,
    pub(super) finished_log: Option<FinishedLog>,
    /// The last changes, for processes that follow the ledger.
    pub(super) history: History,
}

/// The way in which other writers are kept out during a transaction.
pub enum Locking {
    /// Each transaction takes the lock and waits this long for it.
    Each(Wait),
    /// A session holds the lock for its whole life.
    Held(StateLock),
    /// A session holds the lock for its whole life, and the caller ensures that (the simulator).
    HeldElsewhere,
    /// The caller ensures it (the simulator).
    Elsewhere,
}

/// The result of [`FileStore::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The ledger was created.
    New,
    /// The ledger existed, and nothing was changed.
    Existed,
}

impl FileStore {
    /// Opens the store of the state root `root`, a directory that exists. It reads nothing yet: a
    /// missing ledger is an error of the first transaction.
    ///
    /// A second copy of every change, the journal, is kept in the git directory around the root.
    pub fn open(root: &Path, locking: Locking) -> Result<Self, StoreError> {
        let disk = RealDisk::open(root)?.with_journal(Outside::of_journal(root, None));
        Ok(Self::on(root, Box::new(disk), locking))
    }

    /// Does the same with the user's state directory (`~/.local/state`). It always contains the key
    /// that seals the ledger, and the journal if there is no git.
    pub fn open_with(
        root: &Path,
        locking: Locking,
        state_home: Option<&Path>,
    ) -> Result<Self, StoreError> {
        let journal = Outside::of_journal(root, state_home);
        let disk = RealDisk::open(root)?.with_journal(journal);
        let mut store = Self::on(root, Box::new(disk), locking);
        match state_home.map(|home| outside::key(root, home)).transpose() {
            Ok(key) => store.key = key,
            // The home is read-only. The ledger still works.
            Err(why) => store.warnings.push(format!("the ledger is written without a seal: {why}")),
        }
        Ok(store)
    }

    /// Opens the store over any disk. The simulator has one that crashes.
    #[doc(hidden)]
    pub fn on(root: &Path, disk: Box<dyn Disk>, locking: Locking) -> Self {
        Self {
            root: root.to_owned(),
            disk,
            locking,
            known: None,
            journal: Journal::default(),
            key: None,
            hosting: false,
            in_doubt: InDoubt::Refuse,
            looked: None,
            warnings: Vec::new(),
            appended: Vec::new(),
            finished_log: None,
            history: History::default(),
        }
    }

    /// Makes this the store of a host: an edit from outside of a row that a worker holds is
    /// refused.
    #[must_use]
    pub fn hosting(self) -> Self {
        Self { hosting: true, ..self }
    }

    /// Seals every write with this key.
    #[doc(hidden)]
    pub fn sealed_with(self, key: Key) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Creates the ledger, the log and the marker, unless there is a ledger. It is an error if the
    /// ledger is missing but can be restored, because a new one would overwrite what is left of it.
    pub fn create(&mut self, now: Timestamp) -> Result<Created, StoreError> {
        let _held = self.enter(&mut Vec::new())?;
        if self.disk.identity(File::Ledger)?.is_some() {
            // The process that created it may have died before it was durable.
            self.disk.sync_root()?;
            return Ok(Created::Existed);
        }
        if let Some(candidate) = self.newest()? {
            return Err(candidate.lost());
        }
        self.found(now, Head::new(now), 0)?;
        Ok(Created::New)
    }

    /// Creates ledger, log and marker. The lock is held, and there is no valid ledger. The last one
    /// was written `revision` times.
    pub(super) fn found(
        &mut self,
        now: Timestamp,
        head: Head,
        revision: u64,
    ) -> Result<(), StoreError> {
        self.disk.ensure_home()?;
        let project = self.root.display().to_string();
        let line = Fact::Initialized { project }.log_line(now, 0);
        let mut ledger = Ledger::new(head, Vec::new()).map_err(shape)?;
        let lines = line.map(|l| l.to_string()).into_iter().collect();
        self.end_log_line()?;
        ledger.set_log_tail(lines, self.disk.size(File::Log)?);
        let mut document = Document::new(&ledger);
        document.count_from(revision);
        // The marker has no meaning without a ledger, but a ledger without the marker would stay
        // without it.
        self.disk.make_marker()?;
        let known = Known::new(ledger, document, None);
        self.write(known, Made::default(), Backup::None)?;
        Ok(())
    }

    pub(super) fn enter(
        &self,
        warnings: &mut Vec<String>,
    ) -> Result<Option<StateLock>, StoreError> {
        match &self.locking {
            Locking::Each(wait) => {
                let Acquired { guard, warnings: told } = StateLock::acquire(&self.root, *wait)?;
                warnings.extend(told.iter().map(ToString::to_string));
                Ok(Some(guard))
            }
            Locking::Held(_) | Locking::HeldElsewhere | Locking::Elsewhere => Ok(None),
        }
    }

    /// Makes `known` equal to the current file. Edits by hand are respected. A file that is
    /// missing, or no longer JSON, is replaced by the newest version that is left.
    pub(super) fn refresh(&mut self, now: Timestamp) -> Result<Freshness, StoreError> {
        let identity = self.disk.identity(File::Ledger)?;
        if identity.is_some() && self.known.as_ref().is_some_and(|k| k.identity == identity) {
            return Ok(Freshness::AsKnown);
        }
        // The process that wrote it may have died before the name was durable. No answer and no log
        // line may depend on a version that a power loss could take back, so the directory is synced.
        //
        // A command that read the ledger before it decides has parsed this version already.
        let looked = self.looked.take().filter(|k| identity.is_some() && k.identity == identity);
        if let Some(found) = looked {
            self.disk.sync_root()?;
            return self.vet(now, found);
        }
        let Some((bytes, identity)) = self.disk.read(File::Ledger)? else {
            return self.restore(now, Lost::Missing);
        };
        self.disk.sync_root()?;
        let Unreadable { error, bytes } = match format::read_owned(bytes) {
            Ok((ledger, document)) => {
                return self.vet(now, Known::new(ledger, document, Some(identity)));
            }
            Err(unreadable) => unreadable,
        };
        match error {
            FormatError::Corrupt(why) => self.restore(now, Lost::Broken { bytes, why }),
            other if self.is_held() && self.known.is_some() => {
                if let Some(known) = &mut self.known {
                    known.identity = None;
                }
                self.refuse_edit(now, &bytes, &other.to_string())
            }
            other => {
                self.known = None;
                Err(StoreError::Format(other))
            }
        }
    }

    /// Adds what was appended to the log.
    fn with_log(&mut self, applied: Applied) -> Applied {
        let appended = std::mem::take(&mut self.appended);
        Applied { log: String::from_utf8_lossy(&appended).into_owned(), ..applied }
    }

    /// Returns whether this process keeps all other writers out for its whole life.
    pub(super) fn is_held(&self) -> bool {
        match &self.locking {
            Locking::Held(_) | Locking::HeldElsewhere => true,
            Locking::Each(_) | Locking::Elsewhere => false,
        }
    }

    /// Returns the path of the archived ledger, if the change discards it.
    pub(super) fn put_in(
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
            archived = Some(Path::new(Home::ARCHIVE).join(kept));
        }
        known.ledger.put_in(change);
        known.document.put_in(change);
        known.state = None;
        Ok(archived)
    }

    /// Writes `known` to the file durably, then appends its log lines and updates the journal.
    /// `known` is kept only at the end: after an error on the way, the next transaction reads the
    /// file.
    pub(super) fn write(
        &mut self,
        mut known: Known,
        made: Made,
        backup: Backup,
    ) -> Result<Vec<String>, StoreError> {
        self.known = None;
        writable(&known.ledger)?;
        let revision = known.document.revision() + 1;
        let state = known.document.settle(&known.ledger, revision, self.key.as_ref());
        let pieces = known.document.pieces();
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        self.disk.write_tmp(&pieces)?;
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
        let lines = log_tail::text(&known.ledger.head().log_tail);
        match self.append_to_log(&lines) {
            Ok(()) => {}
            // The ledger stores the lines, and the next change appends them.
            Err(e) => warnings
                .push(format!("the change was made, but its log lines are not written yet: {e}")),
        }
        let followed = self.journal.follow(&*self.disk, &known.ledger, &mut known.document, &made);
        warnings.extend(followed);
        if let Ok(Some(identity)) = self.disk.identity(File::Ledger) {
            self.history.follow(known.identity, identity, &made.touched);
            self.known = Some(Known { identity: Some(identity), state: Some(state), ..known });
        }
        Ok(warnings)
    }
}

impl Store for FileStore {
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        match self.transaction(now, commands, None)? {
            AppliedOnce::Now(applied) => Ok(self.with_log(applied)),
            // Only a transaction with a name can have been made before.
            AppliedOnce::Before => Ok(Applied::default()),
        }
    }

    fn apply_once(
        &mut self,
        now: Timestamp,
        of: &TransactionId,
        commands: &[Command],
    ) -> Result<AppliedOnce, StoreError> {
        Ok(match self.transaction(now, commands, Some(of))? {
            AppliedOnce::Now(applied) => AppliedOnce::Now(self.with_log(applied)),
            AppliedOnce::Before => AppliedOnce::Before,
        })
    }

    fn news(&mut self, since: Option<&str>) -> Result<NewsSince, StoreError> {
        // It reads the file if another program wrote it.
        self.ledger()?;
        match self.looked.as_ref().or(self.known.as_ref()) {
            Some(known) => Ok(self.history.since(known.identity, &known.document, since)),
            None => Err(StoreError::NoLedger { root: self.root.clone() }),
        }
    }

    fn ledger(&mut self) -> Result<&Ledger, StoreError> {
        // The process that holds the lock knows the valid version. The next transaction judges any
        // edit that was made meanwhile.
        let identity = self.disk.identity(File::Ledger)?;
        let current = |known: &Known| known.identity.is_some() && known.identity == identity;
        if self.known.as_ref().is_some_and(|known| self.is_held() || current(known)) {
            self.looked = None;
        } else if !self.looked.as_ref().is_some_and(current) {
            self.looked = None;
            let Some((bytes, identity)) = self.disk.read(File::Ledger)? else {
                return Err(StoreError::NoLedger { root: self.root.clone() });
            };
            let read = format::read_owned(bytes);
            let (ledger, document) = read.map_err(|e| StoreError::Format(e.error))?;
            self.looked = Some(Known::new(ledger, document, Some(identity)));
        }
        match self.looked.as_ref().or(self.known.as_ref()) {
            Some(known) => Ok(&known.ledger),
            None => Err(StoreError::NoLedger { root: self.root.clone() }),
        }
    }
}

/// Formats a time for a file name.
pub(super) fn stamp(now: Timestamp) -> String {
    now.to_string().replace([':', '-'], "")
}

fn shape(e: harness_core::ledger::DuplicateTask) -> StoreError {
    StoreError::Format(FormatError::Shape { place: String::new(), problem: e.to_string() })
}

impl StoreError {
    /// Returns whether another process holds the lock.
    pub fn is_busy(&self) -> bool {
        #[cfg(feature = "postgres")]
        if let Self::Database(error) = self {
            return matches!(**error, super::postgres::DatabaseError::Busy { .. });
        }
        matches!(self, Self::Lock(LockError::Busy { .. } | LockError::Unseen { .. }))
    }
}
