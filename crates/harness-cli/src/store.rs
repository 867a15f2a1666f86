//! The store for commands: one transaction under the lock, with warnings on standard error, and
//! refusals as failures with hints about what to do next.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use harness::{
    Project,
    clock::{Clock, SystemClock},
    project::{LedgerStore, LedgerText},
    protocol::Refused,
    store::{
        FileStore, Locking, RunStoreError, Runs, Store, StoreError,
        lock::{LockError, Wait},
        postgres::DatabaseError,
    },
};
use harness_core::{Epoch, Ledger, Receipt, Refusal, Task, TaskId, format::FormatError};

use crate::{
    failure::{Failure, Result},
    invocation::Invocation,
    paint::warn,
    root::StateRoot,
};

const LOCK_TIMEOUT: &str = "HARNESS_LOCK_TIMEOUT_SECONDS";
const LOCK_TIMEOUT_SECONDS: u64 = 5;
const LEASE: &str = "HARNESS_LEASE_SECONDS";

impl StateRoot {
    /// Returns the project of this root, whose ledger is in its files or in a database.
    pub(crate) fn project(&self) -> io::Result<Project> {
        Ok(Project::open(self.path())?.with_backing(self.backing().clone()))
    }

    /// Returns the current ledger, without a lock and without a repair.
    pub(crate) fn snapshot(&self) -> Result<Ledger, StoreError> {
        self.project()?.snapshot()
    }

    /// Returns the same as a text.
    pub(crate) fn snapshot_text(&self) -> Result<LedgerText, StoreError> {
        self.project()?.snapshot_text()
    }

    /// Returns the current ledger as a text, or, while its database cannot be reached, the copy that the
    /// host of this machine keeps, with a remark about its age.
    pub(crate) fn seen_text(&self) -> Result<(LedgerText, Option<String>), StoreError> {
        let why = match self.snapshot_text() {
            Ok(text) => return Ok((text, None)),
            Err(StoreError::Database(why)) if is_away(&why) => why,
            Err(why) => return Err(why),
        };
        let Ok(Some(mirror)) = self.project()?.mirror() else {
            return Err(StoreError::Database(why));
        };
        let age = SystemClock.now().seconds() - mirror.written_at.seconds();
        let remark = format!("{why}; this is the copy of this machine, {age} s old");
        Ok((mirror.text, Some(remark)))
    }

    /// Returns the record of runs, to read it; `None` if there is none yet.
    pub(crate) fn look_at_runs(&self) -> Result<Option<Arc<dyn Runs>>, RunStoreError> {
        self.project()?.look_at_runs()
    }

    /// Returns the receipt of a claim; `None` if there is none.
    pub(crate) fn receipt(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Option<Receipt>, StoreError> {
        self.project()?.receipt(task, epoch)
    }
}

impl Invocation {
    /// Returns the current ledger, without a lock and without a repair.
    pub(crate) fn look(&self, root: &StateRoot) -> Result<Ledger> {
        Ok(root.snapshot()?)
    }

    /// Returns the project of a root, with the directory in which its store keeps files of its own.
    pub(crate) fn project(&self, root: &StateRoot) -> Result<Project> {
        Ok(root.project()?.with_state_home(self.state_home()))
    }

    pub(crate) fn store(&self, root: &StateRoot) -> Result<LedgerStore> {
        Ok(self.project(root)?.store(Locking::Each(self.lock_wait()?))?)
    }

    /// Returns the store over the files of a root. A ledger in a database has none.
    pub(crate) fn file_store(&self, root: &StateRoot) -> Result<FileStore> {
        if !root.backing().is_files() {
            let what = "the ledger of this project is in a database, not in a file";
            return Err(Failure::error(what).hint("`harness store status` shows it"));
        }
        Ok(self.project(root)?.file_store(Locking::Each(self.lock_wait()?))?)
    }

    /// Returns the directory of the seal's key and, without git, of the journal; `None` without a
    /// home.
    pub(crate) fn state_home(&self) -> Option<PathBuf> {
        self.env.state_home().ok()
    }

    /// Works as [`look`](Self::look), but restores a lost or broken ledger first. A ledger that was
    /// changed while a killed run held it is an error.
    pub(crate) fn look_or_restore(&self, root: &StateRoot) -> Result<Ledger> {
        let mut store = self.project(root)?.store(Locking::Each(Wait::No))?;
        match store.apply(SystemClock.now(), &[]) {
            Ok(applied) => applied.warnings.iter().for_each(|warning| warn(warning)),
            // The next command that needs the lock reports its error, and the read below reports a
            // wrong format. A ledger that only a newer harness may write can still be read.
            Err(StoreError::Lock(_) | StoreError::LockLost | StoreError::Format(_)) => {}
            Err(StoreError::Needs { .. }) => {}
            Err(other) => return Err(other.into()),
        }
        self.look(root)
    }

    /// Returns how long a command waits for the lock.
    pub(crate) fn lock_wait(&self) -> Result<Wait> {
        let seconds = self.seconds(LOCK_TIMEOUT)?.unwrap_or(LOCK_TIMEOUT_SECONDS);
        Ok(Wait::For(Duration::from_secs(seconds)))
    }

    /// Returns the lease of a claim that a session makes.
    pub(crate) fn lease_seconds(&self) -> Result<u64> {
        Ok(self.seconds(LEASE)?.unwrap_or(harness_core::lease::SESSION_LEASE_SECONDS))
    }

    /// Returns the lease that the user has set.
    pub(crate) fn own_lease_seconds(&self) -> Result<Option<u64>> {
        self.seconds(LEASE)
    }

    pub(crate) fn seconds(&self, variable: &str) -> Result<Option<u64>> {
        let Some(text) = self.env.text(variable)? else { return Ok(None) };
        let seconds = text.trim().parse::<u64>().ok().filter(|s| *s <= 365 * 24 * 3600);
        seconds.map(Some).ok_or_else(|| {
            Failure::config(format!("{variable}: {text:?} is not a number of seconds"))
        })
    }
}
/// Returns the failure, with the id that was probably meant.
pub(crate) fn not_found(ledger: &Ledger, id: TaskId) -> Failure {
    let distance = |other: &Task| strsim::damerau_levenshtein(other.id.as_str(), id.as_str());
    let near = ledger.tasks().map(|task| (distance(task), &task.id)).filter(|(d, _)| *d <= 2);
    let nearest = near.min().map(|(_, id)| format!("`{id}`"));
    let failure = Failure::from(Refusal::NotFound { task: id.clone() });
    match nearest {
        Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
        None => failure,
    }
}

/// Parses a task id as an argument.
pub(crate) fn task_id(text: &str) -> Result<TaskId, String> {
    TaskId::parse(text).map_err(|e| e.to_string())
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::NoLedger { .. } => Self::error(text)
                .hint("`harness init` creates one, or shows what is left of a lost one"),
            StoreError::Lost { .. } => both_ways(Self::config(text)),
            StoreError::Edited { .. } => Self::config(text)
                .hint("`harness init --restore` restores the version that harness wrote")
                .hint("`harness status --ack` accepts the edit and logs it"),
            StoreError::Format(FormatError::Corrupt(_)) => Self::config(text)
                .hint("`harness init --restore` restores the newest version that is left")
                .hint("so does any command that changes something; `harness doctor` shows details"),
            StoreError::Format(FormatError::Newer { .. }) => {
                Self::config(text).hint("use the newer harness; nothing was changed")
            }
            StoreError::Needs { .. } => {
                Self::config(text).hint("commands that only read still work with this version")
            }
            StoreError::Format(FormatError::Shape { .. }) => {
                Self::config(text).hint("fix it by hand; nothing was changed")
            }
            StoreError::Unrecoverable { .. } => Self::config(text)
                .hint(
                    "put back a version of harness-tasks.json from your own backups or from \
                     .harness/archive",
                )
                .hint("`harness init --fresh` archives the broken files and starts over"),
            StoreError::Lock(LockError::Busy { .. }) => {
                Self::error(text).hint("try again when it has ended, or stop that process")
            }
            StoreError::Io(why) => Self::from(why),
            StoreError::Database(why) => Self::from(*why),
            StoreError::Unusable { why } => unusable(&why),
            StoreError::Lock(LockError::Disk(why)) => Self::from(why),
            StoreError::Lock(_) | StoreError::LockLost => Self::error(text),
            // The library may add variants.
            _ => Self::error(text),
        }
    }
}

/// Returns whether a database cannot be reached by this process, now or without the password.
fn is_away(why: &DatabaseError) -> bool {
    matches!(why, DatabaseError::Unreachable { .. } | DatabaseError::Login { .. })
}

/// Returns the failure of a database that may not be used. Its lines after the first are hints.
fn unusable(why: &str) -> Failure {
    let mut lines = why.split("\nHint: ");
    let failure = Failure::config(lines.next().unwrap_or_default());
    lines.fold(failure, |failure, hint| failure.hint(hint))
}

/// Adds the two ways to continue if a ledger is lost or in doubt. Neither loses anything.
pub(crate) fn both_ways(failure: Failure) -> Failure {
    failure
        .hint("`harness init --restore` restores the newest version that harness wrote")
        .hint("`harness init --fresh` archives what is left and starts over")
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Refused::from(refusal).into()
    }
}
