//! Where the ledger is kept: one writer, whole transactions, nothing acknowledged before it is
//! durable.

#[doc(hidden)]
pub mod disk;
mod file;
pub mod lock;
mod log_tail;
mod look;
mod writer;

use std::{io, path::PathBuf};

use harness_core::{Command, Fact, Ledger, Refusal, Reply, Timestamp, format::FormatError};

pub use file::{Created, FileStore, Locking, look};
pub use look::{LockState, look_backup, look_bytes, look_lock, open_log};
pub use writer::{Publish, Writer, WriterError};

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
    /// Where the ledger as it was is kept, from the root, if the change threw it away.
    pub archived: Vec<PathBuf>,
    /// What a person should hear although the change was made.
    pub warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no harness-tasks.json in {}", root.display())]
    NoLedger { root: PathBuf },
    /// The ledger is JSON of a wrong shape, or of a newer version: a person must mend it.
    #[error(transparent)]
    Format(FormatError),
    #[error("harness-tasks.json corrupted and unrecoverable: {ledger}; {backup}")]
    Unrecoverable { ledger: String, backup: String },
    #[error(transparent)]
    Lock(#[from] lock::LockError),
    #[error("the lock was taken away by another program; nothing was written")]
    LockLost,
    #[error(transparent)]
    Io(#[from] io::Error),
}
