//! Where a project keeps its ledger: in the files of its root, or in a database.

use std::sync::Arc;
#[cfg(feature = "postgres")]
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use harness_core::{Command, CommitId, Epoch, Ledger, Receipt, TaskId, Timestamp};

use super::Project;
use crate::clock::Clock;
use crate::store::{
    Applied, AppliedOnce, FileStore, Locking, NewsSince, Store, StoreError, TransactionId,
};
#[cfg(feature = "sqlite")]
use crate::store::{RunStore, RunStoreError, Runs};
#[cfg(feature = "postgres")]
use crate::{
    home::Outside,
    store::postgres::{ClockOffset, Database, DatabaseAccess, DatabaseError, Waiting},
};

/// The place of the ledger, its log, its receipts and the record of runs: the files of the root, which
/// is the default, or a database. Clones share one connection, which is made when it is first needed.
#[derive(Clone, Default)]
pub struct Backing {
    #[cfg(feature = "postgres")]
    database: Option<Arc<LazyDatabase>>,
}

/// Returns how a database is reached, or why it may not be.
#[cfg(feature = "postgres")]
type Access = dyn Fn() -> Result<DatabaseAccess, String> + Send + Sync;

#[cfg(feature = "postgres")]
struct LazyDatabase {
    access: Box<Access>,
    opened: Mutex<Opened>,
    clock: ClockOffset,
}

/// The time for which a database that could not be opened is not tried again by the same process, which
/// would wait for it once more for each thing that it shows.
#[cfg(feature = "postgres")]
const AWAY: Duration = Duration::from_secs(5);

#[cfg(feature = "postgres")]
#[derive(Default)]
enum Opened {
    #[default]
    Never,
    Connected(Database),
    Failed(Instant, DatabaseError),
}

impl Backing {
    /// Returns the files of the root.
    pub fn files() -> Self {
        Self::default()
    }

    /// Returns a database. `access` is called before it is connected, and no earlier.
    #[cfg(feature = "postgres")]
    pub fn database(
        access: impl Fn() -> Result<DatabaseAccess, String> + Send + Sync + 'static,
    ) -> Self {
        let (opened, clock) = (Mutex::default(), ClockOffset::default());
        let database = LazyDatabase { access: Box::new(access), opened, clock };
        Self { database: Some(Arc::new(database)) }
    }

    /// Returns whether the ledger is in the files of the root.
    pub fn is_files(&self) -> bool {
        #[cfg(feature = "postgres")]
        return self.database.is_none();
        #[cfg(not(feature = "postgres"))]
        return true;
    }

    /// Connects to the database, unless that was done; `None` for files.
    #[cfg(feature = "postgres")]
    pub fn open(&self) -> Result<Option<Database>, StoreError> {
        let Some(lazy) = &self.database else { return Ok(None) };
        let mut opened = lazy.opened.lock().unwrap_or_else(PoisonError::into_inner);
        match &*opened {
            Opened::Connected(database) => return Ok(Some(database.clone())),
            Opened::Failed(at, why) if at.elapsed() < AWAY => return Err(why.clone().into()),
            Opened::Never | Opened::Failed(..) => {}
        }
        let mut access = (lazy.access)().map_err(|why| StoreError::Unusable { why })?;
        access.clock = lazy.clock.clone();
        match Database::open(access) {
            Ok(database) => {
                *opened = Opened::Connected(database.clone());
                Ok(Some(database))
            }
            Err(why) => {
                *opened = Opened::Failed(Instant::now(), why.clone());
                Err(why.into())
            }
        }
    }
}

impl Backing {
    /// Returns the clock by which leases end: the one of the database, which is known as soon as it was
    /// asked something. For files it is `own`.
    fn clock(&self, own: Arc<dyn Clock>) -> Arc<dyn Clock> {
        #[cfg(feature = "postgres")]
        if let Some(lazy) = &self.database {
            return lazy.clock.clock();
        }
        own
    }

    /// Sets how long the calls of this process wait for a database that is away. Files are not affected.
    #[cfg(feature = "postgres")]
    pub fn wait(&self, waiting: Waiting) {
        let Some(lazy) = &self.database else { return };
        let opened = lazy.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Opened::Connected(database) = &*opened {
            database.access().wait(waiting);
        }
    }
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_files() { "files" } else { "database" })
    }
}

/// The store of a ledger, wherever it is kept.
pub enum LedgerStore {
    /// The files of the root.
    Files(Box<FileStore>),
    /// The database. The lock of the root is held as long as this store lives, if it was given.
    #[cfg(feature = "postgres")]
    Database {
        /// The ledger in the database.
        store: Box<crate::store::postgres::PostgresStore>,
        /// The lock of the root, or the way to it.
        locking: Locking,
    },
}

impl LedgerStore {
    /// Lets a store over files protect the claims of others against edits of the file.
    #[must_use]
    pub fn hosting(self) -> Self {
        match self {
            Self::Files(store) => Self::Files(Box::new(store.hosting())),
            #[cfg(feature = "postgres")]
            database @ Self::Database { .. } => database,
        }
    }

    fn port(&mut self) -> &mut dyn Store {
        match self {
            Self::Files(store) => &mut **store,
            #[cfg(feature = "postgres")]
            Self::Database { store, .. } => &mut **store,
        }
    }
}

impl Store for LedgerStore {
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        self.port().apply(now, commands)
    }

    fn ledger(&mut self) -> Result<&Ledger, StoreError> {
        self.port().ledger()
    }

    fn apply_once(
        &mut self,
        now: Timestamp,
        of: &TransactionId,
        commands: &[Command],
    ) -> Result<AppliedOnce, StoreError> {
        self.port().apply_once(now, of, commands)
    }

    fn news(&mut self, since: Option<&str>) -> Result<NewsSince, StoreError> {
        self.port().news(since)
    }
}

impl Project {
    /// Sets where the ledger is kept.
    #[must_use]
    pub fn with_backing(self, backing: Backing) -> Self {
        let clock = backing.clock(Arc::clone(&self.clock));
        Self { backing, clock, ..self }
    }

    /// Returns where the ledger is kept.
    pub fn backing(&self) -> &Backing {
        &self.backing
    }

    /// Opens the store without the gate that keeps secrets out.
    pub fn store(&self, locking: Locking) -> Result<LedgerStore, StoreError> {
        #[cfg(feature = "postgres")]
        if let Some(database) = self.backing.open()? {
            let mut store = database.store().for_root(&self.root);
            if let Some(home) = &self.state_home {
                let folder = Outside::of_root(&self.root, home);
                folder.make()?;
                store = store.remembering(&folder.path().join(Outside::LAST_SEEN))?;
            }
            return Ok(LedgerStore::Database { store: Box::new(store), locking });
        }
        Ok(LedgerStore::Files(Box::new(self.file_store(locking)?)))
    }

    /// Returns the receipt of a claim; `None` if there is none.
    pub fn receipt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Receipt>, StoreError> {
        #[cfg(feature = "postgres")]
        if let Some(database) = self.backing.open()? {
            return Ok(database.receipt(task, epoch)?);
        }
        Ok(crate::store::receipt(&self.root, task, epoch)?)
    }

    /// Returns the latest receipt of a task that names this commit. A database that has forgotten it
    /// does not count against one that this machine has made.
    pub fn receipt_of_commit(
        &self,
        task: &TaskId,
        commit: &CommitId,
    ) -> Result<Option<Receipt>, StoreError> {
        #[cfg(feature = "postgres")]
        if let Some(database) = self.backing.open()?
            && let Some(found) = database.receipt_of_commit(task, commit)?
        {
            return Ok(Some(found));
        }
        Ok(crate::store::receipt_of_commit(&self.root, task, commit)?)
    }

    /// Opens the record of runs.
    #[cfg(feature = "sqlite")]
    pub fn runs(&self) -> Result<Arc<dyn Runs>, RunStoreError> {
        #[cfg(feature = "postgres")]
        if let Some(database) = self.backing.open().map_err(RunStoreError::of_store)? {
            return Ok(Arc::new(database.runs()));
        }
        Ok(Arc::new(RunStore::open(&self.root)?))
    }

    /// Opens the record of runs to read it; `None` if there is none yet.
    #[cfg(feature = "sqlite")]
    pub fn look_at_runs(&self) -> Result<Option<Arc<dyn Runs>>, RunStoreError> {
        #[cfg(feature = "postgres")]
        if let Some(database) = self.backing.open().map_err(RunStoreError::of_store)? {
            return Ok(Some(Arc::new(database.runs())));
        }
        let found = RunStore::look(&self.root)?;
        Ok(found.map(|runs| Arc::new(runs) as Arc<dyn Runs>))
    }
}

/// Reads the text of a ledger, wherever it is kept.
pub(super) fn text(project: &Project) -> Result<Vec<u8>, StoreError> {
    #[cfg(feature = "postgres")]
    if let Some(database) = project.backing.open()? {
        return Ok(database.store().export()?.into_bytes());
    }
    crate::store::read_text(&project.root)
}
