//! The record of runs in SQLite: `.harness/harness.db`.
//!
//! It uses WAL and `synchronous=FULL`, so that an answered change is on the disk. A change that needs
//! to be there only with the next one is appended to the same WAL without a sync. A reader creates
//! no file: without a working writer there is no `-wal`, and the database file is read directly.
//! That happens without locks, so each result is used only if the file is unchanged after it.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use harness_core::{
    Epoch, Refusal, Reply, TaskId, Timestamp,
    agent::Usage,
    command::{OfRun, RunStep, RunView},
    notify::{OutboxStep, Outgoing},
    run::{Iteration, Run, RunId},
};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::{
    DATABASE, RunStoreError, Runs,
    database::{Open, SYNCHRONOUS, connect, error_of, make_safe, refuse_others, still, usable},
    outbox,
    row::{self, RowError},
    schema::{self, Found},
};
use crate::{
    home::{Inode, file_name},
    store::disk::{Disk as _, RealDisk},
};

pub(super) const NAME: &str = file_name(DATABASE);
/// The longest wait for another writer.
const BUSY_SECONDS: u64 = 5;
/// The wait of a reader is shorter, so that a person soon learns that the database is locked.
pub(super) const LOOK_BUSY_SECONDS: u64 = 2;
/// A file that changes during every one of these reads has a writer, and then it has a `-wal`.
const LOOKS_MAX: u32 = 5;

/// The record of runs of one state root. Share it in an [`Arc`](std::sync::Arc).
#[derive(Debug)]
pub struct RunStore {
    path: PathBuf,
    busy_seconds: u64,
    open: Mutex<Open>,
    /// `true` if the end of the WAL may not be on the disk yet.
    unflushed: AtomicBool,
}

/// The time at which a change must be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// When the call returns.
    Now,
    /// With [`Runs::flush`], or with the next change if that is earlier.
    WhenFlushed,
    /// With the next change, before which nothing outside depends on it.
    WithNext,
}

impl RunStore {
    /// Opens the database for writing. It is created with `.harness` if it does not exist.
    pub fn open(root: &Path) -> Result<RunStore, RunStoreError> {
        Self::open_within(root, BUSY_SECONDS)
    }

    /// Does the same as [`open`](Self::open), with a limit for the wait for other writers.
    pub fn open_within(root: &Path, busy_seconds: u64) -> Result<RunStore, RunStoreError> {
        let root = root.canonicalize()?;
        let disk = RealDisk::open(&root)?;
        disk.make_private(NAME)?;
        refuse_others(&disk)?;
        let path = root.join(DATABASE);
        let failed = |error| error_of(&path, busy_seconds, "open", error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let mut connection = connect(&path, flags, busy_seconds).map_err(failed)?;
        // This is checked before anything is changed, even the journal mode.
        let known = schema::found(&connection).map_err(failed)?;
        usable(&path, known)?;
        make_safe(&path, &connection, busy_seconds)?;
        let known = schema::migrate(&mut connection).map_err(failed)?;
        usable(&path, known)?;
        let file = Inode::at(&path);
        let open = Mutex::new(Open { connection, still: None, file });
        Ok(RunStore { path, busy_seconds, open, unflushed: AtomicBool::new(false) })
    }

    /// Opens the database for reading. Returns `None` if nothing was ever recorded. It creates,
    /// migrates and repairs nothing.
    pub fn look(root: &Path) -> Result<Option<RunStore>, RunStoreError> {
        let root = root.canonicalize()?;
        let disk = RealDisk::open(&root)?;
        if !disk.has(NAME)? {
            return Ok(None);
        }
        refuse_others(&disk)?;
        let path = root.join(DATABASE);
        let failed = |error| error_of(&path, LOOK_BUSY_SECONDS, "read", error);
        let open = Open::to_read(&path).map_err(failed)?;
        let (open, unflushed) = (Mutex::new(open), AtomicBool::new(false));
        let store = RunStore { path, busy_seconds: LOOK_BUSY_SECONDS, open, unflushed };
        match store.read(|connection| Ok(schema::found(connection)?))? {
            Found::Empty => Ok(None),
            found => usable(&store.path, found).map(|()| Some(store)),
        }
    }

    /// Returns the runs that are not over, newest first.
    pub fn live(&self) -> Result<Vec<Run>, RunStoreError> {
        self.read(row::live_runs)
    }

    /// The runs that are not over, and the newest run that is no attempt of another one; newest first.
    pub fn recent(&self) -> Result<Vec<Run>, RunStoreError> {
        self.read(row::recent_runs)
    }

    /// The attempts at a task, newest first.
    pub fn of_task(&self, task: &TaskId) -> Result<Vec<Run>, RunStoreError> {
        self.read(|connection| row::runs_of_task(connection, task))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // A transaction that a panic cut off was rolled back when it was dropped.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, doing: &'static str, error: RowError) -> RunStoreError {
        match error {
            RowError::Sql(error) => error_of(&self.path, self.busy_seconds, doing, error),
            RowError::Bad { row, column, value } => {
                RunStoreError::BadValue { path: self.path.clone(), row, column, value }
            }
        }
    }

    fn read<T>(
        &self,
        read: impl Fn(&Connection) -> Result<T, RowError>,
    ) -> Result<T, RunStoreError> {
        let mut open = self.lock();
        self.revive(&mut open)?;
        for _ in 0..LOOKS_MAX {
            let found = read(&open.connection);
            if open.still.is_none() || open.still == still(&self.path) {
                return found.map_err(|error| self.error("read", error));
            }
            *open = Open::to_read(&self.path).map_err(|error| self.error("read", error.into()))?;
        }
        Err(RunStoreError::Locked { path: self.path.clone(), seconds: 0 })
    }

    /// Runs one transaction that may write from its start, so that the values it reads stay valid.
    fn write<T>(
        &self,
        durable: Durable,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, RowError>,
    ) -> Result<T, RunStoreError> {
        let mut open = self.lock();
        self.revive(&mut open)?;
        let written = match durable {
            Durable::Now => transact(&mut open.connection, write),
            Durable::WhenFlushed | Durable::WithNext => {
                // SQLite syncs the whole WAL at a commit with FULL, and with NORMAL not at all.
                // Frames that a crash cuts off are ignored.
                let set =
                    |open: &Open, mode| open.connection.pragma_update(None, SYNCHRONOUS, mode);
                let written = set(&open, "NORMAL").map_err(RowError::Sql);
                if durable == Durable::WhenFlushed {
                    self.unflushed.store(true, Ordering::Release);
                }
                let written = written.and_then(|()| transact(&mut open.connection, write));
                set(&open, "FULL").map_err(RowError::Sql).and(written)
            }
        };
        let written = written.map_err(|error| self.error("write", error))?;
        if durable == Durable::Now {
            self.unflushed.store(false, Ordering::Release);
        }
        Ok(written)
    }
}

fn transact<T>(
    connection: &mut Connection,
    write: impl FnOnce(&Transaction<'_>) -> Result<T, RowError>,
) -> Result<T, RowError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let written = write(&transaction)?;
    transaction.commit()?;
    Ok(written)
}

impl RunStore {
    /// Restores the file if it was removed or replaced. The connection that has it open still has
    /// its content.
    fn revive(&self, open: &mut Open) -> Result<(), RunStoreError> {
        let Some(known) = open.file else { return Ok(()) };
        let found = Inode::at(&self.path);
        if found == Some(known) {
            return Ok(());
        }
        let failed = |error| error_of(&self.path, self.busy_seconds, "restore", error);
        if let Some(root) = self.path.parent().and_then(Path::parent) {
            RealDisk::open(root)?.ensure_home()?;
        }
        let copy = self.path.with_extension("db.restored");
        _ = std::fs::remove_file(&copy);
        let name = copy.to_string_lossy();
        open.connection.execute("VACUUM INTO ?1", [&*name]).map_err(failed)?;
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600))?;
        for ending in ["", "-wal", "-shm"] {
            let beside = |tail: &str| {
                let mut name = self.path.as_os_str().to_owned();
                name.push(tail);
                PathBuf::from(name)
            };
            match std::fs::rename(beside(ending), beside(&format!(".foreign{ending}"))) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
                Ok(()) | Err(_) => {}
            }
        }
        std::fs::rename(&copy, &self.path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = connect(&self.path, flags, self.busy_seconds).map_err(failed)?;
        make_safe(&self.path, &connection, self.busy_seconds)?;
        *open = Open { connection, still: None, file: Inode::at(&self.path) };
        tracing::warn!("{DATABASE} was gone or replaced, and was written back");
        Ok(())
    }
}

impl Runs for RunStore {
    fn open_run(&self, run: &Run) -> Result<Run, RunStoreError> {
        // The first iteration of an attempt begins with a change of its own, before its agent.
        let durable = if run.task.is_some() { Durable::WithNext } else { Durable::Now };
        self.write(durable, |rows| {
            if let (Some(task), Some(epoch)) = (&run.task, run.epoch)
                && let Some(known) = row::find_attempt(rows, task, epoch)?
            {
                return Ok(Ok(known));
            }
            if row::find_run(rows, &run.id)?.is_some() {
                return Ok(Err(RunStoreError::Exists { run: run.id.clone() }));
            }
            if let Some(parent) = &run.parent
                && row::find_run(rows, parent)?.is_none()
            {
                let (run, parent) = (run.id.clone(), parent.clone());
                return Ok(Err(RunStoreError::NoParent { run, parent }));
            }
            row::put_run(rows, run)?;
            Ok(row::find_run(rows, &run.id)?.ok_or_else(|| unreachable_row(&run.id)))
        })?
    }

    fn apply(
        &self,
        now: Timestamp,
        command: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError> {
        // The next iteration begins, or the run stops, with a change of its own.
        let ends = matches!(command.step, RunStep::End { .. });
        let durable = if ends { Durable::WhenFlushed } else { Durable::Now };
        self.write(durable, |rows| {
            let Some(run) = row::find_run(rows, &command.run)? else {
                return Ok(Err(Refusal::RunNotFound { run: command.run.clone() }));
            };
            let parent = match &run.parent {
                Some(parent) => row::find_run(rows, parent)?,
                None => None,
            };
            let view = RunView { last: row::last_iteration(rows, &run.id)?, parent, run };
            let change = match command.decide(&view, now) {
                Ok(change) => change,
                Err(refusal) => return Ok(Err(refusal)),
            };
            row::put_run(rows, &change.run)?;
            if let Some(parent) = &change.parent {
                row::put_run(rows, parent)?;
            }
            if let Some(iteration) = &change.iteration {
                row::put_iteration(rows, &change.run.id, iteration)?;
            }
            Ok(Ok(change.reply))
        })
    }

    fn is_flushed(&self) -> bool {
        !self.unflushed.load(Ordering::Acquire)
    }

    fn flush(&self) -> Result<(), RunStoreError> {
        // The lock keeps a writer from adding frames that this sync would not cover.
        let _open = self.lock();
        if self.is_flushed() {
            return Ok(());
        }
        let mut wal = self.path.as_os_str().to_owned();
        wal.push("-wal");
        match std::fs::File::open(wal) {
            Ok(wal) => wal.sync_data()?,
            // Another process moved all of it into the database, or an agent removed it. There is
            // nothing left to sync.
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
            Err(why) => return Err(why.into()),
        }
        self.unflushed.store(false, Ordering::Release);
        Ok(())
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError> {
        self.read(|connection| row::find_run(connection, id))
    }

    fn iterations(&self, id: &RunId) -> Result<Vec<Iteration>, RunStoreError> {
        self.read(|connection| row::all_iterations(connection, id))
    }

    fn attempt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Run>, RunStoreError> {
        self.read(|rows| row::find_attempt(rows, task, epoch))
    }

    fn runs(&self) -> Result<Vec<Run>, RunStoreError> {
        self.read(row::all_runs)
    }

    fn live(&self) -> Result<Vec<Run>, RunStoreError> {
        RunStore::live(self)
    }

    fn recent(&self) -> Result<Vec<Run>, RunStoreError> {
        RunStore::recent(self)
    }

    fn of_task(&self, task: &TaskId) -> Result<Vec<Run>, RunStoreError> {
        RunStore::of_task(self, task)
    }

    fn at_least(&self, id: &RunId, usage: Usage) -> Result<(), RunStoreError> {
        // Usage is hardly ever lost, and a look costs less than a transaction.
        let found = self.read(|rows| row::find_run(rows, id))?;
        if found.is_none_or(|run| run.usage.at_least(usage) == run.usage) {
            return Ok(());
        }
        self.write(Durable::Now, |rows| {
            let Some(run) = row::find_run(rows, id)? else { return Ok(()) };
            let raised = run.usage.at_least(usage);
            if raised != run.usage {
                row::put_run(rows, &Run { usage: raised, ..run })?;
            }
            Ok(())
        })
    }

    fn outbox(&self) -> Result<Vec<Outgoing>, RunStoreError> {
        self.read(outbox::all)
    }

    fn post(&self, now: Timestamp, step: &OutboxStep) -> Result<Vec<Outgoing>, RunStoreError> {
        // Senders ask often whether something is due, and a look costs less than a transaction.
        if step.decide(&self.outbox()?, now).is_empty() {
            return Ok(Vec::new());
        }
        self.write(Durable::Now, |rows| {
            let change = step.decide(&outbox::all(rows)?, now);
            outbox::store(rows, &change)?;
            Ok(change.taken)
        })
    }
}

/// Returns the error for a row that was written but is not there.
fn unreachable_row(run: &RunId) -> RunStoreError {
    RunStoreError::File(std::io::Error::other(format!("run {run} was written but is missing")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_sqlite_is_granted() {
        let root = tempfile::tempdir().unwrap();
        let store = RunStore::open(root.path()).unwrap();
        let open = store.lock();
        let number = |name| -> i64 {
            open.connection.pragma_query_value(None, name, |row| row.get(0)).unwrap()
        };
        let mode: String =
            open.connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
        let (synchronous, busy_milliseconds) = (number("synchronous"), number("busy_timeout"));
        assert_eq!((synchronous, number("foreign_keys"), busy_milliseconds), (2, 1, 5000));
    }

    #[test]
    fn the_end_of_an_iteration_is_flushed_with_the_next_change_or_before_an_effect() {
        let root = tempfile::tempdir().unwrap();
        let store = RunStore::open(root.path()).unwrap();
        let now = Timestamp::from_seconds(0);
        let id = RunId::of_bits(1);
        store.open_run(&Run::queued(id.clone(), now)).unwrap();
        let apply = |step| {
            let of_run = OfRun { run: id.clone(), by: None, step };
            store.apply(now, &of_run).unwrap().unwrap();
            let open = store.lock();
            let synchronous: i64 =
                open.connection.pragma_query_value(None, SYNCHRONOUS, |row| row.get(0)).unwrap();
            assert_eq!(synchronous, 2);
        };
        let begin = |number| RunStep::Begin { number, head: None, mark: None, transcript: None };
        let ending = harness_core::run::Ending::Finished;
        let end =
            || RunStep::End { ending, detail: None, final_text: None, head: None, mark: None };
        for number in 0..3 {
            apply(begin(number));
            assert!(store.is_flushed());
            apply(end());
            assert!(!store.is_flushed());
        }
        store.flush().unwrap();
        assert!(store.is_flushed());
        let again = RunStore::look(root.path()).unwrap().unwrap();
        assert_eq!(again.iterations(&id).unwrap().len(), 3);
    }

    #[test]
    fn a_database_that_is_removed_under_a_run_is_written_back() {
        let root = tempfile::tempdir().unwrap();
        let store = RunStore::open(root.path()).unwrap();
        let rows = |store: &RunStore| -> i64 {
            let count = "SELECT count(*) FROM sqlite_schema";
            store.read(|c| Ok(c.query_row(count, [], |row| row.get(0))?)).unwrap()
        };
        let before = rows(&store);
        std::fs::remove_dir_all(root.path().join(".harness")).unwrap();
        assert_eq!(rows(&store), before);
        assert_eq!(rows(&RunStore::open(root.path()).unwrap()), before);
        assert!(root.path().join(".harness/.gitignore").exists());
    }
}
