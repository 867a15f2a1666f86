//! The record of runs: rows that [`OfRun::decide`] changes, one transaction at a time. It is
//! independent of the ledger.

#[cfg(feature = "sqlite")]
mod database;
mod deferred;
mod memory;
#[cfg(feature = "sqlite")]
mod outbox;
mod owner;
#[cfg(feature = "sqlite")]
mod row;
#[cfg(feature = "sqlite")]
mod schema;
#[cfg(feature = "sqlite")]
mod sqlite;
mod steady;

use std::{collections::BTreeMap, io, path::PathBuf};

use harness_core::{
    Epoch, Refusal, Reply, TaskId, Timestamp,
    agent::Usage,
    command::OfRun,
    notify::{OutboxStep, Outgoing},
    run::{Iteration, Run, RunId},
};
use uuid::Uuid;

#[cfg(feature = "postgres")]
pub(in crate::store) use self::memory::{storable, storable_usage};
#[cfg(feature = "sqlite")]
pub use self::sqlite::RunStore;
pub use self::{
    memory::MemoryRuns,
    owner::{is_gone, this_process},
    steady::{Spent, SteadyRuns},
};
use crate::home::Home;

/// The path of the database, relative to the state root.
pub const DATABASE: &str = Home::DATABASE;

/// The port of the flows to the record of runs. `RunStore` keeps it on disk (feature `sqlite`), and
/// [`MemoryRuns`] does not. It blocks, and a change is durable when it returns, with two exceptions:
/// the end of an iteration becomes durable with the next change or the next [`flush`](Runs::flush),
/// and the new row of an attempt with the next change, before which no agent is started.
pub trait Runs: Send + Sync {
    /// Opens a new run. If the attempt (task, epoch) already has a row, that row is returned
    /// unchanged, whatever the ids.
    fn open_run(&self, run: &Run) -> Result<Run, RunStoreError>;

    /// Decides the command and stores the result, in one transaction. A refusal changes nothing.
    fn apply(
        &self,
        now: Timestamp,
        command: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError>;

    /// Does the same as [`apply`](Runs::apply) for a command with a name, unless it was done before under
    /// that name. A record that is always reached makes it in any case, because nobody asks it again.
    #[doc(hidden)]
    fn apply_once(
        &self,
        _id: Uuid,
        now: Timestamp,
        command: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError> {
        self.apply(now, command)
    }

    /// Returns whether every earlier change is durable.
    fn is_flushed(&self) -> bool {
        true
    }

    /// Makes every earlier change durable.
    fn flush(&self) -> Result<(), RunStoreError> {
        Ok(())
    }

    /// Returns the current row.
    fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError>;

    /// Returns the iterations in order; none for a run that does not exist.
    fn iterations(&self, id: &RunId) -> Result<Vec<Iteration>, RunStoreError>;

    /// Returns the machines that opened runs, by run. It is empty where all runs are of this machine.
    fn hosts(&self) -> Result<BTreeMap<RunId, String>, RunStoreError> {
        Ok(BTreeMap::new())
    }

    /// Returns the machines on which the transcripts of a run are, by the number of the iteration. It is
    /// empty where all transcripts are on this machine.
    fn transcript_hosts(&self, _: &RunId) -> Result<BTreeMap<u32, String>, RunStoreError> {
        Ok(BTreeMap::new())
    }

    /// Returns the row of an attempt.
    fn attempt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Run>, RunStoreError>;

    /// Returns all runs, newest first.
    fn runs(&self) -> Result<Vec<Run>, RunStoreError>;

    /// Returns the runs that are not over, newest first.
    fn live(&self) -> Result<Vec<Run>, RunStoreError> {
        let mut runs = self.runs()?;
        runs.retain(|run| !run.status.is_over());
        Ok(runs)
    }

    /// Returns the runs that are not over, and the newest run that is no attempt of another one; newest
    /// first.
    fn recent(&self) -> Result<Vec<Run>, RunStoreError> {
        let mut runs = self.runs()?;
        let newest = runs.iter().find(|run| run.parent.is_none()).map(|run| run.id.clone());
        runs.retain(|run| !run.status.is_over() || Some(&run.id) == newest.as_ref());
        Ok(runs)
    }

    /// Returns the attempts at a task, newest first.
    fn of_task(&self, task: &TaskId) -> Result<Vec<Run>, RunStoreError> {
        let mut runs = self.runs()?;
        runs.retain(|run| run.task.as_ref() == Some(task));
        Ok(runs)
    }

    /// Raises the usage of a run to at least this value.
    fn at_least(&self, id: &RunId, usage: Usage) -> Result<(), RunStoreError>;

    /// Returns the messages in the outbox, sent ones included, in the order in which they were
    /// added.
    fn outbox(&self) -> Result<Vec<Outgoing>, RunStoreError>;

    /// Decides a step of the outbox and makes the result durable, in one transaction. Returns the
    /// messages that the caller has to send now.
    fn post(&self, now: Timestamp, step: &OutboxStep) -> Result<Vec<Outgoing>, RunStoreError>;
}

/// The reason why the record of runs could not be read or written. Nothing of the transaction
/// became true.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunStoreError {
    /// The file could not be created or read, or something else is in its place.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The file belongs to another program, or is damaged.
    #[error(
        "{} is damaged, or not a database of harness ({why}) — move it away, with its -wal and -shm: it \
         holds only the record of past runs, and the next run creates a new one",
        path.display()
    )]
    NotOurs {
        /// The path of the file.
        path: PathBuf,
        /// The error of SQLite.
        why: String,
    },
    /// A later harness wrote it.
    #[error(
        "{} has version {found}, but this harness knows version {known} — use the harness that wrote \
         it or a later one, or move the file away to start a new record",
        path.display()
    )]
    Newer {
        /// The path of the file.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// Another program holds a transaction open, usually a person with `sqlite3`.
    #[error(
        "{} was locked by another program for more than {seconds} s — close that program and try \
         again (is a transaction open in `sqlite3`?)",
        path.display()
    )]
    Locked {
        /// The path of the file.
        path: PathBuf,
        /// The time that was waited.
        seconds: u64,
    },
    /// SQLite cannot guarantee durability.
    #[error(
        "{}: {pragma} is {found} and not {wanted}, so a crash could lose what was recorded — is it on \
         a network file system? keep the project on a local one",
        path.display()
    )]
    Unsafe {
        /// The path of the file.
        path: PathBuf,
        /// The setting.
        pragma: &'static str,
        /// The current value.
        found: String,
        /// The required value.
        wanted: &'static str,
    },
    /// The value is not one that harness writes. A person or a later harness wrote it.
    #[error("{}: {row} has the invalid {column} {value:?} — fix it with `sqlite3`", path.display())]
    BadValue {
        /// The path of the file.
        path: PathBuf,
        /// The run or iteration.
        row: String,
        /// The column.
        column: &'static str,
        /// The value.
        value: String,
    },
    /// A run of this name exists.
    #[error("run {run} exists already")]
    Exists {
        /// The name of the run.
        run: RunId,
    },
    /// The parent run does not exist.
    #[error("run {run} cannot be a part of run {parent}: there is no such run")]
    NoParent {
        /// The new run.
        run: RunId,
        /// The missing parent.
        parent: RunId,
    },
    /// The disk is full, or fails.
    #[error("cannot {doing} {}: {source}", path.display())]
    Failed {
        /// The path of the file.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database failed, or was not reached.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Database(Box<super::postgres::DatabaseError>),
}

impl RunStoreError {
    /// Returns whether the record cannot be reached at this moment, and nothing was done.
    pub fn is_unreachable(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Database(error) => error.is_unreachable(),
            _ => false,
        }
    }

    /// Returns whether it is not known that a change was made, because the connection was lost.
    pub(crate) fn is_in_doubt(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Database(error) => {
                matches!(**error, super::postgres::DatabaseError::OutcomeUnknown { .. })
            }
            _ => false,
        }
    }

    /// Returns the error of a change that can be sent again under its name: it is as good as not made.
    pub(crate) fn into_unreachable(self) -> Self {
        match self {
            #[cfg(feature = "postgres")]
            Self::Database(error) => Self::Database(Box::new(match *error {
                super::postgres::DatabaseError::OutcomeUnknown { server, why } => {
                    super::postgres::DatabaseError::Unreachable { server, why }
                }
                error => error,
            })),
            error => error,
        }
    }

    /// Returns the error of a record that is kept beside a ledger as one of that ledger.
    pub(crate) fn into_store(self) -> super::StoreError {
        match self {
            #[cfg(feature = "postgres")]
            Self::Database(error) => super::StoreError::Database(error),
            error => super::StoreError::Io(io::Error::other(error.to_string())),
        }
    }
}

#[cfg(feature = "postgres")]
impl RunStoreError {
    /// Returns the error of a record that is kept with its ledger.
    pub(crate) fn of_store(error: super::StoreError) -> Self {
        match error {
            super::StoreError::Database(error) => Self::Database(error),
            error => Self::File(io::Error::other(error.to_string())),
        }
    }
}

#[cfg(feature = "postgres")]
impl From<super::postgres::DatabaseError> for RunStoreError {
    fn from(error: super::postgres::DatabaseError) -> Self {
        Self::Database(Box::new(error))
    }
}

/// Limits a number to the 63 bits of a column. Larger values are as good as infinite.
fn saturated(number: u64) -> u64 {
    number.min(i64::MAX.unsigned_abs())
}
