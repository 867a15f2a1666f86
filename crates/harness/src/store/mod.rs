//! Where the ledger is kept: one writer, whole transactions, nothing acknowledged before it is
//! durable.

pub(crate) mod alive;
#[doc(hidden)]
pub mod disk;
mod file;
pub mod lock;
mod log_tail;
mod look;
mod receipts;
mod runs;
mod stores;
mod writer;

use std::{io, path::PathBuf};

use harness_core::{Command, Fact, Ledger, Refusal, Reply, Timestamp, format::FormatError};

pub use file::{Created, FileStore, Locking, look};
pub use look::{LockState, look_backup, look_bytes, look_lock, open_log};
pub use receipts::{receipt, record};
pub use runs::{
    DATABASE, MemoryRuns, RunStore, RunStoreError, Runs, SteadyRuns, is_gone, this_process,
};
pub use stores::Stores;
pub use writer::{Publish, Writer, WriterError, Written};

/// The store port. Blocking: whoever must not wait owns it in a [`Writer`].
pub trait Store: Send {
    /// Decides the commands in order, each on what the ones before it made true, and makes all of
    /// it durable with one write. A refused command changes nothing and hinders no other.
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError>;

    /// The ledger as it stands.
    fn ledger(&mut self) -> Result<&Ledger, StoreError>;
}

/// What a transaction did. It is durable.
#[derive(Debug, Default)]
#[must_use]
pub struct Applied {
    /// One answer for each command.
    pub replies: Vec<Result<Reply, Refusal>>,
    /// What became true, in order.
    pub facts: Vec<Fact>,
    /// For each command that threw the ledger away: which of them, and where the ledger as it was is
    /// kept, from the root.
    pub archived: Vec<(usize, PathBuf)>,
    /// What a person should hear although the change was made.
    pub warnings: Vec<String>,
}

/// Why a store did nothing. Nothing of the transaction became true.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nobody has called [`FileStore::create`] here.
    #[error("there is no harness-tasks.json in {}", root.display())]
    NoLedger {
        /// Where it was looked for.
        root: PathBuf,
    },
    /// The ledger is JSON of a wrong shape, or of a newer version: a person must mend it.
    #[error(transparent)]
    Format(FormatError),
    /// Neither the ledger nor its backup can be read.
    #[error("harness-tasks.json corrupted and unrecoverable: {ledger}; {backup}")]
    Unrecoverable {
        /// What is wrong with the ledger.
        ledger: String,
        /// What is wrong with the backup.
        backup: String,
    },
    /// The lock could not be had.
    #[error(transparent)]
    Lock(#[from] lock::LockError),
    /// It was had, and was gone when it mattered.
    #[error("the lock was taken away by another program; nothing was written")]
    LockLost,
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}
