//! The stores of the ledger: one writer, whole transactions, and no answer before a change is
//! durable.

pub(crate) mod alive;
mod changes;
mod commit;
#[doc(hidden)]
pub mod disk;
mod edits;
mod file;
mod history;
mod journal;
pub mod lock;
mod log_tail;
mod look;
mod observer;
#[cfg(feature = "postgres")]
pub mod postgres;
mod pull_requests;
mod receipts;
mod redacted;
mod registry;
mod repair;
mod restore;
mod runs;
mod stores;
mod trajectory;
mod transaction;
mod version;
mod witness;
mod writer;

use std::{io, path::PathBuf};

use harness_core::{
    Command, Fact, Ledger, Refusal, Reply, Timestamp,
    fact::Source,
    format::{Document, FormatError, LedgerNews},
};

pub use changes::Changes;
pub use commit::{Commit, Committing, Flushed};
pub use edits::Acknowledged;
pub use file::{Created, FileStore, Locking};
#[doc(hidden)]
pub use history::NewsSince;
pub(crate) use look::read_text;
#[doc(hidden)]
pub use look::{LockState, look_backup, look_lock, open_log};
pub use observer::{Observer, Observers, Transaction};
pub use pull_requests::PullRequest;
#[doc(hidden)]
pub use receipts::{latest_receipt, receipt, receipt_of_commit, receipt_path, record};
#[doc(hidden)]
pub use redacted::{Redacted, redacted, refused, secret_in};
pub use registry::{Presence, RegisteredWorker, Registration, Registry, WorkerRecord};
pub use repair::{Fresh, Restored};
#[cfg(feature = "sqlite")]
pub use runs::RunStore;
#[doc(hidden)]
pub use runs::{DATABASE, SteadyRuns, is_gone, this_process};
pub use runs::{MemoryRuns, RunStoreError, Runs, Spent};
#[doc(hidden)]
pub use stores::Stores;
#[doc(hidden)]
pub use witness::{Origin, Witness};
#[doc(hidden)]
pub use writer::Relayed;
pub use writer::{Writer, WriterError, Written};

/// The store port. It blocks. A caller that must not wait owns it in a [`Writer`].
pub trait Store: Send {
    /// Decides the commands in order, each on the result of those before it, and makes all of them
    /// durable with one write. A refused command changes nothing and affects no other.
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError>;

    /// Returns the current ledger.
    fn ledger(&mut self) -> Result<&Ledger, StoreError>;

    /// Does the same as [`apply`](Store::apply) for a transaction of another process, unless it was
    /// made before. A store that does not remember transactions makes it in any case.
    #[doc(hidden)]
    fn apply_once(
        &mut self,
        now: Timestamp,
        _of: &TransactionId,
        commands: &[Command],
    ) -> Result<AppliedOnce, StoreError> {
        self.apply(now, commands).map(AppliedOnce::Now)
    }

    /// Returns what changed in the ledger since the version `since`. A store that does not know that
    /// version returns the whole ledger.
    #[doc(hidden)]
    fn news(&mut self, _since: Option<&str>) -> Result<NewsSince, StoreError> {
        let ledger = self.ledger()?;
        let mut document = Document::new(ledger);
        document.settle(ledger, 0, None);
        let news = Some(LedgerNews::whole(&document));
        Ok(NewsSince { version: uuid::Uuid::now_v7().to_string(), news })
    }
}

/// The name of a transaction that a process asks another one to make.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionId {
    /// The process, by a name that no other process ever has.
    pub by: String,
    /// The number of the transaction. It grows from one transaction of the process to the next.
    pub number: u64,
    /// Whether the ledger names a transaction that changes nothing.
    pub recording: Recording,
}

/// Whether the ledger names a transaction that changes nothing.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// It does not: such a transaction may be made again.
    WithChange,
    /// It does, because another process may still try to make it.
    Always,
}

/// The result of a transaction that is made once.
#[doc(hidden)]
#[derive(Debug)]
pub enum AppliedOnce {
    /// It was made now.
    Now(Applied),
    /// It, or a later one of the same process, was made before.
    Before,
}

/// The result of a transaction. It is durable.
#[derive(Debug, Default)]
#[must_use]
pub struct Applied {
    /// One answer for each command.
    pub replies: Vec<Result<Reply, Refusal>>,
    /// The facts that became true, in order.
    pub facts: Vec<Fact>,
    /// For each command that discarded the ledger: its position, and the path of the archived
    /// ledger relative to the root.
    pub archived: Vec<(usize, PathBuf)>,
    /// Warnings for a person although the change was made.
    pub warnings: Vec<String>,
    /// The text that was appended to the log, if the store keeps one: lines of these facts, after
    /// those that an earlier failure kept from it.
    pub log: String,
}

/// The reason why a store did nothing. Nothing of the transaction became true.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// [`FileStore::create`] was never called here.
    #[error("there is no harness-tasks.json in {}", root.display())]
    NoLedger {
        /// The root that was searched.
        root: PathBuf,
    },
    /// There is no ledger, but one can be restored.
    #[error("harness-tasks.json is missing, but {} has a version with {}", source_name(*from), counted(*tasks))]
    Lost {
        /// The source of the newest version.
        from: Source,
        /// The number of tasks in it.
        tasks: usize,
    },
    /// The ledger was changed while a run held it that was killed since. A person must decide which
    /// version is valid.
    #[error(
        "harness-tasks.json was changed from outside while a run held it, which was killed: {what}"
    )]
    Edited {
        /// The changes.
        what: String,
    },
    /// The ledger is JSON of a wrong shape, or of a newer version. A person must fix it.
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
        /// The error of the ledger.
        ledger: String,
        /// The error of the backup.
        backup: String,
    },
    /// The lock could not be taken.
    #[error(transparent)]
    Lock(#[from] lock::LockError),
    /// The lock was taken, but lost before the write.
    #[error("another program removed the lock; nothing was written")]
    LockLost,
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There is no answer yet, and nobody waits for it any more.
    #[error("the store has not answered for {seconds} s")]
    Silent {
        /// The time without an answer.
        seconds: u64,
    },
    /// The database may not be used, or it is not known how.
    #[cfg(feature = "postgres")]
    #[error("{why}")]
    Unusable {
        /// The reason, and what a person can do about it.
        why: String,
    },
    /// The database failed, or was not reached.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Database(Box<postgres::DatabaseError>),
}

impl StoreError {
    /// Returns whether the store cannot be reached at this moment. The same call may succeed later. A
    /// store that is [`Silent`](Self::Silent) may still make the change. Files are always reached: an
    /// error of the disk is none of these.
    pub fn is_unreachable(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Database(error) => error.is_unreachable(),
            Self::Silent { .. } => true,
            _ => false,
        }
    }
}

#[cfg(feature = "postgres")]
impl From<postgres::DatabaseError> for StoreError {
    fn from(error: postgres::DatabaseError) -> Self {
        Self::Database(Box::new(error))
    }
}

fn counted(tasks: usize) -> String {
    if tasks == 1 { "1 task".to_owned() } else { format!("{tasks} tasks") }
}

fn source_name(from: Source) -> &'static str {
    match from {
        Source::Backup => crate::home::Home::BACKUP,
        Source::Journal => "the journal",
        Source::Memory => "this process",
    }
}
