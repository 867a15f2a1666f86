//! The seam between the protocol of a shared ledger and the database that keeps its rows.
//!
//! The protocol (which version is known, whether the database has forgotten something, and whether a
//! lost commit took effect) is written once, in [`FleetStore`](super::FleetStore). PostgreSQL and the
//! database of the simulator differ only below this trait.

use std::time::Instant;

use harness_core::{database::ChangeHash, format::State, task::RenewedLease};
pub use uuid::Uuid;

use super::{DatabaseAccess, DatabaseError};
pub use super::{
    change::{WrittenChange, WrittenLeases, WrittenTasks},
    error::Trouble,
};

/// The row that orders the changes of a ledger.
#[derive(Debug, Clone)]
pub struct LedgerOrder {
    /// The number of the last change.
    pub version: u64,
    /// The hash of the last change.
    pub hash: ChangeHash,
    /// The digest of the version.
    pub state: State,
    /// The root object.
    pub head: String,
    /// The number of the last renewals.
    pub beat: i64,
    /// The size of all log lines.
    pub log_bytes: u64,
    /// The size of the snapshot at the start of the changes.
    pub base: u64,
    /// The time of the last change.
    pub at: i64,
    /// The line of the server that made the last change; see [`LedgerMoment::line`].
    pub line: Option<String>,
}

/// What a host asks for when it looks at a ledger.
#[derive(Debug, Clone, Copy)]
pub struct LedgerSince {
    /// The version and the renewals in memory. Without them, all tasks are asked for.
    pub known: Option<(u64, i64)>,
    /// The last version that was remembered.
    pub remembered: Option<u64>,
}

/// One change.
#[derive(Debug, Clone)]
pub struct ChangeRow {
    /// Its number.
    pub version: u64,
    /// The hash of the change before it.
    pub previous: Option<ChangeHash>,
    /// Its hash.
    pub hash: Option<ChangeHash>,
    /// The line of the journal.
    pub entry: String,
}

/// All tasks in their order, and all renewals.
#[derive(Debug, Default)]
pub struct LedgerWhole {
    /// The texts of the tasks.
    pub tasks: Vec<String>,
    /// The renewals.
    pub leases: Vec<RenewedLease>,
}

/// A ledger at one moment, as far as it was asked for.
#[derive(Debug)]
pub struct LedgerMoment {
    /// The row of the ledger.
    pub order: LedgerOrder,
    /// The first changes since the known version.
    pub changes: Vec<ChangeRow>,
    /// All tasks and renewals, or only the renewals since the known ones.
    pub whole: LedgerWhole,
    /// The time of the database, after the lock.
    pub now: i64,
    /// The hash of the remembered version, if it is stored.
    pub at: Option<ChangeHash>,
    /// The name of the line of history to which the server adds. It changes when a replica takes over
    /// and when a copy is restored; `None` if the server does not tell. Each change stores it.
    pub line: Option<String>,
}

impl LedgerMoment {
    /// Returns whether another server made the last change, so that this one may lack others.
    pub(super) fn has_moved(&self) -> bool {
        matches!((&self.order.line, &self.line), (Some(of), Some(now)) if of != now)
    }
}

/// What a transaction writes.
pub enum LedgerWrite<'a> {
    /// The next version.
    Change(&'a WrittenChange),
    /// Renewals.
    Leases(&'a WrittenLeases),
}

/// A connection to the rows of one ledger. A transaction begins with [`enter`](Self::enter), and ends
/// with [`leave`](Self::leave) or [`write`](Self::write).
pub trait LedgerRows: Send {
    /// Locks the row of the ledger, and then reads what was asked for. Returns `None` if there is no
    /// such ledger; there is no transaction then.
    fn enter(&mut self, since: &LedgerSince) -> Result<Option<LedgerMoment>, Trouble>;

    /// Reads the same without a lock, and returns when it is durable.
    fn look(&mut self, since: &LedgerSince) -> Result<Option<LedgerMoment>, Trouble>;

    /// Reads the version, its hash, and the number of the last renewals.
    fn glance(&mut self) -> Result<Option<(u64, ChangeHash, i64)>, Trouble>;

    /// Reads the next changes.
    fn changes_after(&mut self, version: u64) -> Result<Vec<ChangeRow>, Trouble>;

    /// Reads all tasks and renewals.
    fn whole(&mut self) -> Result<LedgerWhole, Trouble>;

    /// Ends the transaction without a change, and returns when what it has read is durable.
    fn leave(&mut self) -> Result<(), Trouble>;

    /// Writes and commits, and returns when that is durable. A change stores the line of the server.
    fn write(&mut self, write: &LedgerWrite<'_>) -> Result<(), Trouble>;

    /// Waits for an old transaction by locking the row, and returns whether an operation took effect. If
    /// so, it is durable.
    fn took_effect(&mut self, operation: Uuid) -> Result<bool, Trouble>;

    /// Looks for the ledger by its name.
    fn find_again(&mut self) -> Result<(), Trouble>;

    /// Notes the version of a change that took effect.
    fn committed(&mut self, version: u64);

    /// Gives up the connection. The next statement makes a new one.
    fn close(&mut self);

    /// Waits a moment before the next try. The error is the one of a caller that gives up.
    fn pause(&mut self, until: Instant, why: String) -> Result<(), DatabaseError>;

    /// Waits a moment before it is asked again whether an operation took effect.
    fn pause_in_doubt(&mut self, until: Instant, why: String) -> Result<(), DatabaseError> {
        self.pause(until, why)
    }

    /// Returns the time at which a caller gives up that begins now.
    fn until(&self) -> Instant {
        Instant::now() + self.access().patience
    }

    /// Returns which ledger this is.
    fn access(&self) -> &DatabaseAccess;
}
