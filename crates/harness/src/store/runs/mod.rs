//! What is kept of runs: rows, changed one transaction at a time by what
//! [`OfRun::decide`] says. The ledger knows nothing of them, and they nothing of it.

mod memory;
mod owner;
#[cfg(feature = "sqlite")]
mod row;
#[cfg(feature = "sqlite")]
mod schema;
#[cfg(feature = "sqlite")]
mod sqlite;
mod steady;

use std::{io, path::PathBuf};

use harness_core::{
    Epoch, Refusal, Reply, TaskId, Timestamp,
    agent::Usage,
    command::OfRun,
    run::{Iteration, Run, RunId},
};

#[cfg(feature = "sqlite")]
pub use self::sqlite::RunStore;
pub use self::{
    memory::MemoryRuns,
    owner::{is_gone, this_process},
    steady::{Spent, SteadyRuns},
};
use crate::home::Home;

/// Where the rows are, from the state root.
pub const DATABASE: &str = Home::DATABASE;

/// The port of the flows: what they need of the record of runs. `RunStore` keeps it on disk (feature
/// `sqlite`), [`MemoryRuns`] does not. Blocking, and durable when it returns.
pub trait Runs: Send + Sync {
    /// Opens a run as it is given. An attempt (task, epoch) that has a row already has that one,
    /// unchanged, whatever the ids: it is returned.
    fn open_run(&self, run: &Run) -> Result<Run, RunStoreError>;

    /// Decides and makes it true, in one transaction. A refusal changes nothing.
    fn apply(
        &self,
        now: Timestamp,
        command: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError>;

    /// The row as it stands.
    fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError>;

    /// In their order; none for a run that there is not.
    fn iterations(&self, id: &RunId) -> Result<Vec<Iteration>, RunStoreError>;

    /// The row of an attempt.
    fn attempt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Run>, RunStoreError>;

    /// All of them, newest first.
    fn runs(&self) -> Result<Vec<Run>, RunStoreError>;

    /// The runs that are not over, newest first.
    fn live(&self) -> Result<Vec<Run>, RunStoreError> {
        let mut runs = self.runs()?;
        runs.retain(|run| !run.status.is_over());
        Ok(runs)
    }

    /// Raises what a run has used to at least this, where its row says less.
    fn at_least(&self, id: &RunId, usage: Usage) -> Result<(), RunStoreError>;
}

/// Why the record of runs could not be read or written. Nothing of the transaction became true.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunStoreError {
    /// The file could not be made or looked at, or something else stands there.
    #[error(transparent)]
    File(#[from] io::Error),
    /// Another program's file, or a damaged one.
    #[error(
        "{} is damaged, or not a database of harness ({why}) — move it away, with its -wal and -shm: it \
         holds only the record of past runs, and the next run creates a new one",
        path.display()
    )]
    NotOurs {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        why: String,
    },
    /// It was written by a later harness.
    #[error(
        "{} has version {found}, but this harness knows version {known} — use the harness that wrote \
         it or a later one, or move the file away to start a new record",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// Somebody holds a transaction open, mostly a person with `sqlite3`.
    #[error(
        "{} was locked by another program for more than {seconds} s — close that program and try \
         again (is a transaction open in `sqlite3`?)",
        path.display()
    )]
    Locked {
        /// The database.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// SQLite would not promise to keep what it is given.
    #[error(
        "{}: {pragma} is {found} and not {wanted}, so a crash could lose what was recorded — is it on \
         a network file system? keep the project on a local one",
        path.display()
    )]
    Unsafe {
        /// The database.
        path: PathBuf,
        /// The setting.
        pragma: &'static str,
        /// What it is.
        found: String,
        /// What it has to be.
        wanted: &'static str,
    },
    /// A value that harness does not write, so a person did, or a later harness.
    #[error("{}: {row} has the invalid {column} {value:?} — fix it with `sqlite3`", path.display())]
    BadValue {
        /// Which file.
        path: PathBuf,
        /// Which run or iteration.
        row: String,
        /// Which column.
        column: &'static str,
        /// What it holds.
        value: String,
    },
    /// A run of this name exists.
    #[error("run {run} exists already")]
    Exists {
        /// Its name.
        run: RunId,
    },
    /// The run that it should be a part of does not exist.
    #[error("run {run} cannot be a part of run {parent}: there is no such run")]
    NoParent {
        /// The new one.
        run: RunId,
        /// The one that there is not.
        parent: RunId,
    },
    /// The disk is full, or fails.
    #[error("cannot {doing} {}: {source}", path.display())]
    Failed {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A column holds 63 bits. What is beyond them is as good as endless.
fn saturated(number: u64) -> u64 {
    number.min(i64::MAX.unsigned_abs())
}
