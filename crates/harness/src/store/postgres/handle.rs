//! A database with one of its ledgers, and everything that is kept there.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};

use harness_core::{
    CommitId, Epoch, Fact, Ledger, Receipt, TaskId, Timestamp,
    format::{Document, journal::Receipts},
    ledger::Head,
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{
    DatabaseAccess, DatabaseError, Migrated, PostgresRuns, PostgresStore, SCHEMA_VERSION,
    error::Trouble,
    rows::{column, count, get},
    schema,
    seed::Seed,
    statements::PostgresRows,
    wire::{Driver, Link},
};

/// What the stores of one host share.
pub(super) struct Shared {
    pub(super) access: Arc<DatabaseAccess>,
    pub(super) driver: Arc<Driver>,
    ledger: AtomicI64,
    /// The id of this process among the hosts of the ledger.
    id: Uuid,
    /// The newest version that this host has written.
    written: AtomicU64,
    /// `true` if others are to be notified of an answer.
    answered: AtomicBool,
    side: Mutex<Link>,
}

impl Shared {
    pub(super) fn ledger(&self) -> i64 {
        self.ledger.load(Ordering::Relaxed)
    }

    pub(super) fn id(&self) -> Uuid {
        self.id
    }

    /// Lets the follower notify other hosts.
    pub(super) fn has_answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Returns whether others are to be notified of an answer, once.
    pub(super) fn take_answered(&self) -> bool {
        self.answered.swap(false, Ordering::Relaxed)
    }

    pub(super) fn link(&self) -> Link {
        Link::new(&self.access, &self.driver)
    }

    /// Returns the connection for everything but the ledger.
    pub(super) fn side(&self) -> MutexGuard<'_, Link> {
        // A connection that a panic left in a transaction is closed by its next failure.
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn changed(&self, version: u64) {
        self.written.fetch_max(version, Ordering::Relaxed);
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(super) fn no_ledger(&self) -> DatabaseError {
        let ledger = self.access.ledger.to_string();
        DatabaseError::NoLedger { server: self.access.server(), ledger }
    }

    /// Looks for the ledger by its name. A restored database may have another number for it.
    pub(super) fn find_again(&self, link: &mut Link) -> Result<(), Trouble> {
        let name = self.access.ledger.as_str();
        let sql = "SELECT id FROM harness.ledger WHERE name = $1";
        let rows = link.query(sql, vec![(&name, Type::TEXT)])?;
        let Some(row) = rows.first() else { return Err(self.no_ledger().into()) };
        self.ledger.store(get(row, 0)?, Ordering::Relaxed);
        Ok(())
    }
}

/// A database with one of its ledgers. Clones share their connections.
#[derive(Clone)]
pub struct Database(pub(super) Arc<Shared>);

/// How a ledger stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerStatus {
    /// The server and the database, without credentials.
    pub server: String,
    /// The version of the server.
    pub server_version: String,
    /// The version of the schema.
    pub schema_version: i32,
    /// The name of the ledger.
    pub ledger: String,
    /// The number of its last change.
    pub version: u64,
    /// The number of changes that are stored.
    pub changes: u64,
    /// The number of its tasks.
    pub tasks: u64,
    /// The machines with registered workers.
    pub hosts: Vec<String>,
    /// The time of the last change.
    pub changed_at: Timestamp,
}

impl Database {
    /// Connects to a ledger that exists. The server and its schema are checked.
    pub fn open(access: DatabaseAccess) -> Result<Self, DatabaseError> {
        let database = Self::unchecked(access)?;
        let mut link = database.0.side();
        let opened = schema::check_server(&mut link)
            .and_then(|()| schema::check(&mut link))
            .and_then(|()| database.0.find_again(&mut link));
        opened.map_err(|trouble| link.given_up(trouble))?;
        drop(link);
        Ok(database)
    }

    /// Creates the schema, if it is missing, and an empty ledger.
    pub fn create(access: DatabaseAccess) -> Result<Self, DatabaseError> {
        let database = Self::prepared(access)?;
        let now = database.now()?;
        let access = &database.0.access;
        let project = format!("{}/{}", access.server(), access.ledger);
        let log: Vec<String> = Fact::Initialized { project }
            .log_line(now, 0)
            .map(|line| line.to_string())
            .into_iter()
            .collect();
        let Ok(mut ledger) = Ledger::new(Head::new(now), Vec::new()) else {
            return Err(DatabaseError::CopyDiffers);
        };
        ledger.set_log_tail(log.clone(), 0);
        let mut document = Document::new(&ledger);
        document.settle(&ledger, 1, None);
        database.seed(Seed { ledger, document, log, receipts: Receipts::new() })?;
        Ok(database)
    }

    /// Brings the schema to the version of this program.
    pub fn migrate(access: DatabaseAccess) -> Result<Migrated, DatabaseError> {
        let database = Self::unchecked(access)?;
        let mut link = database.0.side();
        let migrated = schema::check_server(&mut link).and_then(|()| schema::migrate(&mut link));
        migrated.map_err(|trouble| link.given_up(trouble))
    }

    /// Connects and brings the schema into being; the ledger need not exist.
    pub(super) fn prepared(access: DatabaseAccess) -> Result<Self, DatabaseError> {
        let database = Self::unchecked(access)?;
        let mut link = database.0.side();
        let checked =
            schema::check_server(&mut link).and_then(|()| match schema::check(&mut link) {
                Err(Trouble::Said(DatabaseError::NoSchema { .. })) => {
                    schema::migrate(&mut link).map(|_| ())
                }
                checked => checked,
            });
        checked.map_err(|trouble| link.given_up(trouble))?;
        drop(link);
        Ok(database)
    }

    fn unchecked(access: DatabaseAccess) -> Result<Self, DatabaseError> {
        let (access, driver) = (Arc::new(access), Driver::start()?);
        let side = Mutex::new(Link::new(&access, &driver));
        let (ledger, written) = (AtomicI64::new(-1), AtomicU64::new(0));
        let (id, answered) = (Uuid::now_v7(), AtomicBool::new(false));
        Ok(Self(Arc::new(Shared { access, driver, ledger, id, written, answered, side })))
    }

    /// Returns how this database is reached.
    pub fn access(&self) -> &DatabaseAccess {
        &self.0.access
    }

    /// Returns a store with a connection of its own.
    pub fn store(&self) -> PostgresStore {
        PostgresStore::over(PostgresRows::new(&self.0))
    }

    /// Returns the record of runs, over the connection that everything but the ledger shares.
    pub fn runs(&self) -> PostgresRuns {
        PostgresRuns::new(&self.0)
    }

    /// Returns the time of the database.
    pub fn now(&self) -> Result<Timestamp, DatabaseError> {
        let sql = "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint";
        self.0.side().again(|link| {
            let rows = link.query(sql, Vec::new())?;
            let seconds = rows.first().map(|row| get(row, 0)).transpose()?;
            Ok(Timestamp::from_seconds(seconds.unwrap_or_default()))
        })
    }

    /// Returns how the ledger stands.
    pub fn status(&self) -> Result<LedgerStatus, DatabaseError> {
        let ledger = self.0.ledger();
        let sql = "SELECT l.version, floor(extract(epoch FROM l.changed_at))::bigint, \
                   (SELECT count(*) FROM harness.change WHERE ledger = l.id), \
                   (SELECT count(*) FROM harness.task WHERE ledger = l.id), \
                   ARRAY (SELECT host FROM harness.worker WHERE ledger = l.id UNION \
                   SELECT machine FROM harness.host WHERE ledger = l.id \
                   AND seen_at > clock_timestamp() - interval '1 minute' ORDER BY 1), \
                   current_setting('server_version') FROM harness.ledger l WHERE l.id = $1";
        self.0.side().again(|link| {
            let rows = link.query(sql, vec![(&ledger, Type::INT8)])?;
            let Some(row) = rows.first() else { return Err(self.0.no_ledger().into()) };
            Ok(LedgerStatus {
                server: link.access.server(),
                server_version: get(row, 5)?,
                schema_version: SCHEMA_VERSION,
                ledger: link.access.ledger.to_string(),
                version: count(row, 0)?,
                changes: count(row, 2)?,
                tasks: count(row, 3)?,
                hosts: get(row, 4)?,
                changed_at: Timestamp::from_seconds(get(row, 1)?),
            })
        })
    }

    /// Returns the log lines of the changes after a version, oldest first, each with its version.
    pub fn log_after(&self, version: u64) -> Result<Vec<(u64, String)>, DatabaseError> {
        let sql = "SELECT version, line FROM harness.log WHERE ledger = $1 AND version > $2 \
                   ORDER BY version, number";
        self.lines(sql, version)
    }

    /// Returns the last lines of the log, oldest first, each with its version.
    pub fn log_tail(&self, lines: u64) -> Result<Vec<(u64, String)>, DatabaseError> {
        let sql = "SELECT version, line FROM (SELECT version, number, line FROM harness.log \
                   WHERE ledger = $1 ORDER BY version DESC, number DESC LIMIT $2) AS last \
                   ORDER BY version, number";
        self.lines(sql, lines)
    }

    fn lines(&self, sql: &str, by: u64) -> Result<Vec<(u64, String)>, DatabaseError> {
        let (ledger, by) = (self.0.ledger(), column(by));
        self.0.side().again(|link| {
            let rows = link.query(sql, vec![(&ledger, Type::INT8), (&by, Type::INT8)])?;
            rows.iter().map(|row| Ok((count(row, 0)?, get(row, 1)?))).collect()
        })
    }

    /// Returns the receipt of a claim; `None` if there is none.
    pub fn receipt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Receipt>, DatabaseError> {
        let (ledger, name) = (self.0.ledger(), crate::store::receipts::name(task, epoch));
        let sql = "SELECT entry FROM harness.receipt WHERE ledger = $1 AND name = $2";
        self.0.side().again(|link| {
            let rows = link.query(sql, vec![(&ledger, Type::INT8), (&name, Type::TEXT)])?;
            let entry: Option<String> = rows.first().map(|row| get(row, 0)).transpose()?;
            Ok(entry.and_then(|entry| serde_json::from_str(&entry).ok()))
        })
    }

    /// Returns the latest receipt of a task that names this commit.
    pub fn receipt_of_commit(
        &self,
        task: &TaskId,
        commit: &CommitId,
    ) -> Result<Option<Receipt>, DatabaseError> {
        let (ledger, names) = (self.0.ledger(), format!("{task}."));
        let sql = "SELECT entry FROM harness.receipt WHERE ledger = $1 AND starts_with(name, $2)";
        self.0.side().again(|link| {
            let rows = link.query(sql, vec![(&ledger, Type::INT8), (&names, Type::TEXT)])?;
            let entries: Vec<String> =
                rows.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
            let receipts = entries.iter().filter_map(|entry| serde_json::from_str(entry).ok());
            let of_commit = receipts.filter(|found: &Receipt| {
                found.task == *task && found.commit.as_ref() == Some(commit)
            });
            Ok(of_commit.max_by_key(|found| found.epoch))
        })
    }
}
