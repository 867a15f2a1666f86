//! The store as a command uses it: one transaction under the lock, its warnings on standard error,
//! its refusals as failures that say what to do next.

use std::{io::Write, path::PathBuf, time::Duration};

use harness::{
    clock::{Clock, SystemClock},
    store::{
        Applied, FileStore, Locking, Store, StoreError,
        lock::{LockError, Wait},
    },
};
use harness_core::{
    Command, Ledger, Refusal, Reply, TaskId, command::RefusalKind, format::FormatError,
};

use crate::{
    failure::{Failure, Kind, Result},
    invocation::Invocation,
    render::visible,
    root::StateRoot,
};

const LOCK_TIMEOUT: &str = "HARNESS_LOCK_TIMEOUT_SECONDS";
const LOCK_TIMEOUT_SECONDS: u64 = 5;
const LEASE: &str = "HARNESS_LEASE_SECONDS";

impl Invocation {
    /// The ledger as it stands: no lock, no repair.
    pub(crate) fn look(&self, root: &StateRoot) -> Result<Ledger> {
        Ok(harness::store::look(root.path())?)
    }

    pub(crate) fn store(&self, root: &StateRoot) -> Result<FileStore> {
        let locking = Locking::Each(self.lock_wait()?);
        Ok(FileStore::open_with(root.path(), locking, self.state_home().as_deref())?)
    }

    /// Where the journal is kept without git, and the key of the seal; `None` without a home.
    pub(crate) fn state_home(&self) -> Option<PathBuf> {
        self.env.state_home().ok()
    }

    /// As [`look`](Self::look), but a ledger that is gone or broken is restored first, and one that was
    /// changed while a killed run held it is an error.
    pub(crate) fn look_or_restore(&self, root: &StateRoot) -> Result<Ledger> {
        let home = self.state_home();
        let mut store =
            FileStore::open_with(root.path(), Locking::Each(Wait::No), home.as_deref())?;
        match store.apply(SystemClock.now(), &[]) {
            Ok(applied) => applied.warnings.iter().for_each(|warning| warn(warning)),
            // Who needs the lock next says so; a wrong shape shows at the look. A ledger that only a
            // newer harness may write can be read.
            Err(StoreError::Lock(_) | StoreError::LockLost | StoreError::Format(_)) => {}
            Err(StoreError::Needs { .. }) => {}
            Err(other) => return Err(other.into()),
        }
        self.look(root)
    }

    /// How long the lock is waited for.
    pub(crate) fn lock_wait(&self) -> Result<Wait> {
        let seconds = self.seconds(LOCK_TIMEOUT)?.unwrap_or(LOCK_TIMEOUT_SECONDS);
        Ok(Wait::For(Duration::from_secs(seconds)))
    }

    /// Makes one command true, or says why not: by the host that answers, else in the files.
    pub(crate) fn apply(&self, root: &StateRoot, command: Command) -> Result<Reply> {
        let command = self.hidden(root, command)?;
        if let Some(reply) = self.apply_by_host(root, &command)? {
            return Ok(reply);
        }
        Ok(self.apply_hidden(root, command)?.0)
    }

    /// The same for a command that throws the tasks away: says also where they are kept.
    pub(crate) fn apply_archiving(
        &self,
        root: &StateRoot,
        command: Command,
    ) -> Result<(Reply, Option<PathBuf>)> {
        let command = self.hidden(root, command)?;
        self.apply_hidden(root, command)
    }

    fn apply_hidden(&self, root: &StateRoot, command: Command) -> Result<(Reply, Option<PathBuf>)> {
        let mut store = self.store(root)?;
        let mut applied = store.apply(SystemClock.now(), std::slice::from_ref(&command))?;
        let archived = applied.archived.pop().map(|(_, path)| root.path().join(path));
        Ok((self.answer(applied)?, archived))
    }

    fn answer(&self, mut applied: Applied) -> Result<Reply> {
        for warning in &applied.warnings {
            warn(warning);
        }
        match applied.replies.pop() {
            Some(reply) => Ok(reply?),
            None => Err(Failure::error("the store gave no answer")),
        }
    }

    /// The lease of a claim that a session makes.
    pub(crate) fn lease_seconds(&self) -> Result<u64> {
        Ok(self.seconds(LEASE)?.unwrap_or(harness_core::lease::SESSION_LEASE_SECONDS))
    }

    pub(crate) fn seconds(&self, variable: &str) -> Result<Option<u64>> {
        let Some(text) = self.env.text(variable)? else { return Ok(None) };
        let seconds = text.trim().parse::<u64>().ok().filter(|s| *s <= 365 * 24 * 3600);
        seconds.map(Some).ok_or_else(|| {
            Failure::config(format!("{variable}: {text:?} is not a number of seconds"))
        })
    }
}

/// Something that a person should hear although the command goes on.
pub(crate) fn warn(text: &str) {
    // Nobody is left to be told when this fails.
    _ = writeln!(std::io::stderr(), "WARN: {}", visible(text));
}

/// A task id as an argument.
pub(crate) fn task_id(text: &str) -> Result<TaskId, String> {
    TaskId::parse(text).map_err(|e| e.to_string())
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::NoLedger { .. } => Self::error(text)
                .hint("`harness init` makes one, or says what is left of one that was there"),
            StoreError::Lost { .. } => both_ways(Self::config(text)),
            StoreError::Edited { .. } => Self::config(text)
                .hint("`harness init --restore` brings back the version that harness wrote")
                .hint("`harness status --ack` takes the edit, and logs that"),
            StoreError::Format(FormatError::Corrupt(_)) => Self::config(text)
                .hint("`harness init --restore` brings back the newest version that is left of it")
                .hint("so does any command that changes something; `harness doctor` says more"),
            StoreError::Format(FormatError::Newer { .. }) => {
                Self::config(text).hint("use the newer harness; nothing was changed")
            }
            StoreError::Needs { .. } => {
                Self::config(text).hint("commands that only read still work with this version")
            }
            StoreError::Format(FormatError::Shape { .. }) => {
                Self::config(text).hint("mend it by hand; nothing was changed")
            }
            StoreError::Unrecoverable { .. } => Self::config(text)
                .hint(
                    "put back a version of harness-tasks.json from your own backups or from \
                     .harness/archive",
                )
                .hint("`harness init --fresh` archives the broken files and starts over"),
            StoreError::Lock(LockError::Busy { .. }) => {
                Self::error(text).hint("try again when it has ended, or end that process")
            }
            StoreError::Io(why) => Self::from(why),
            StoreError::Lock(LockError::Disk(why)) => Self::from(why),
            StoreError::Lock(_) | StoreError::LockLost => Self::error(text),
            // The library may add further ones.
            _ => Self::error(text),
        }
    }
}

/// The two ways on where a ledger is gone or in doubt. Neither loses anything.
pub(crate) fn both_ways(failure: Failure) -> Failure {
    failure
        .hint("`harness init --restore` brings back the newest version that harness wrote")
        .hint("`harness init --fresh` archives what is left and starts over")
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.kind() {
            RefusalKind::Conflict | RefusalKind::Request | RefusalKind::Limit => Kind::Error,
            RefusalKind::Config => Kind::Config,
        };
        let failure = Self::new(kind, refusal.to_string());
        match &refusal {
            Refusal::NotFound { .. } | Refusal::UnknownDependency { .. } => {
                failure.hint("`harness task list` shows what there is")
            }
            Refusal::NotClaimedBy { task, .. } => {
                failure.hint(format!("`harness task show {task}` says who holds it"))
            }
            Refusal::InProgress { task, .. } => {
                failure.hint(format!("take it back first: `harness task release {task}`"))
            }
            Refusal::MissingDependency { task, .. } => {
                failure.hint(format!("mend harness-tasks.json: task {task}: depends_on"))
            }
            Refusal::Needed { .. } => failure
                .hint("change their dependencies first: `harness task edit ID --depends-on …`"),
            Refusal::UnfinishedWork { .. } => failure
                .hint("--merge keeps the tasks that are there and adds new ones")
                .hint("--replace archives the ledger and starts from the plan"),
            Refusal::CheckChanged { task } => {
                failure.hint(format!("run it again: `harness task complete --id {task}`"))
            }
            Refusal::NoCheck { task } => {
                failure.hint(format!("give it a check: `harness task edit {task} --validate '…'`"))
            }
            Refusal::RunNotFound { .. } => failure.hint("`harness runs list` shows what there is"),
            Refusal::RunTaken { .. } => {
                failure.hint("`harness status` shows what it does, `harness abort` stops it")
            }
            Refusal::OnlyOperator { .. } => failure.hint(harness::host::wire::ONLY_OPERATOR),
            Refusal::RunFinished { .. }
            | Refusal::NotClaimed { .. }
            | Refusal::NotFailed { .. }
            | Refusal::Exists { .. }
            | Refusal::Cycle { .. }
            | Refusal::HoldsAnother { .. }
            | Refusal::NotNext { .. }
            | Refusal::Unchecked { .. }
            | Refusal::Undecided { .. }
            | Refusal::MaxSessions { .. }
            | Refusal::Secret { .. }
            | Refusal::BadValue(_)
            | Refusal::BadPlan(_) => failure,
        }
    }
}
