//! Where the ledger is kept: one writer, whole transactions, nothing acknowledged before it is
//! durable.

pub(crate) mod alive;
mod commit;
#[doc(hidden)]
pub mod disk;
mod edits;
mod file;
mod journal;
pub mod lock;
mod log_tail;
mod look;
mod observer;
mod receipts;
mod redacted;
mod restore;
mod runs;
mod stores;
mod version;
mod witness;
mod writer;

use std::{io, path::PathBuf};

use harness_core::{
    Command, Fact, Ledger, Refusal, Reply, Timestamp, fact::Source, format::FormatError,
};

pub use commit::{Commit, Committing};
pub use edits::Acknowledged;
pub use file::{Created, FileStore, Locking};
pub use look::look;
#[doc(hidden)]
pub use look::{LockState, look_backup, look_bytes, look_lock, open_log};
pub use observer::{Observer, Observers, Transaction};
#[doc(hidden)]
pub use receipts::{receipt, record};
#[doc(hidden)]
pub use redacted::{Redacted, redacted, refused, secret_in};
pub use restore::{Fresh, Restored};
#[cfg(feature = "sqlite")]
pub use runs::RunStore;
#[doc(hidden)]
pub use runs::{DATABASE, SteadyRuns, is_gone, this_process};
pub use runs::{MemoryRuns, RunStoreError, Runs, Spent};
#[doc(hidden)]
pub use stores::Stores;
#[doc(hidden)]
pub use witness::{Origin, Witness};
pub use writer::{Writer, WriterError, Written};

/// The store port. Blocking: a caller that must not wait owns it in a [`Writer`].
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
    /// What was appended to the log, if the store keeps one: lines of these facts, after those that an
    /// earlier failure kept from it.
    pub log: String,
}

/// Why a store did nothing. Nothing of the transaction became true.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nobody has called [`FileStore::create`] here.
    #[error("there is no harness-tasks.json in {}", root.display())]
    NoLedger {
        /// Where it was looked for.
        root: PathBuf,
    },
    /// There is no ledger, but one can be restored.
    #[error("harness-tasks.json is missing, but {} has a version with {tasks} tasks", source_name(*from))]
    Lost {
        /// Where the newest version is.
        from: Source,
        /// How many tasks it has.
        tasks: usize,
    },
    /// Somebody changed the ledger while a run held it that was killed since: a person must say which
    /// version counts.
    #[error(
        "harness-tasks.json was changed from outside while a run held it, which was killed: {what}"
    )]
    Edited {
        /// What was changed.
        what: String,
    },
    /// The ledger is JSON of a wrong shape, or of a newer version: a person must fix it.
    #[error(transparent)]
    Format(FormatError),
    /// A newer program uses features in this ledger that a change by this one could contradict.
    #[error(
        "harness-tasks.json needs {}, which this harness does not know; nothing was written: upgrade harness",
        features.join(", ")
    )]
    Needs {
        /// The features that this version does not know.
        features: Vec<String>,
    },
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
    #[error("another program removed the lock; nothing was written")]
    LockLost,
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn source_name(from: Source) -> &'static str {
    match from {
        Source::Backup => crate::home::Home::BACKUP,
        Source::Journal => "the journal",
        Source::Memory => "this process",
    }
}
