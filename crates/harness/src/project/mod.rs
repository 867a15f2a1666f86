//! A state root and the one way to put its parts together: a [`Project`] is the root with what is known
//! about it, an [`Engine`] is a process at work in it.

mod backing;
mod budget;
mod engine;
mod flow;
#[cfg(feature = "postgres")]
mod following;
#[cfg(feature = "postgres")]
mod mirror;
mod options;
mod record;
mod reversal;
mod run;
mod snapshot;
mod terms;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(feature = "sqlite")]
use harness_core::{Run, RunId};

use crate::{
    clock::{Clock, SystemClock},
    home::Home,
    hub::Hub,
    process::Redactor,
    recorder::Recorder,
    store::{
        FileStore, Locking, Observers, Redacted, Store, StoreError, Writer,
        disk::{Disk as _, RealDisk},
        lock::{Acquired, StateLock, Wait},
    },
};

#[cfg(feature = "sqlite")]
use crate::{process::leftovers, store::is_gone};

pub use backing::{Backing, LedgerStore};
pub use budget::RunBudget;
use engine::LedgerPlace;
pub use engine::{Engine, Keeper, Parts, Tenure};
pub use flow::Pursuit;
#[cfg(feature = "postgres")]
pub(crate) use following::Mail;
#[cfg(feature = "postgres")]
pub use mirror::LedgerMirror;
pub use options::{AgentTerms, RunOptions};
pub use record::{RUN_LEASE_SECONDS, RunDriver, RunError, RunRecord, RunStart, new_run_id};
pub use reversal::{Reversal, ReversalEnd};
pub use run::{ActiveRun, RunPart};
pub use snapshot::LedgerText;
pub use terms::{KeptTerms, RunWarning};

/// A state root: its files, its ledger and its clock.
///
/// ```
/// use harness::{
///     Hub, Observers, Project,
///     core::{Command, TaskId, command::{Add, Edit}},
///     store::{Locking, lock::Wait},
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let project = Project::open(folder.path())?;
/// project.file_store(Locking::Each(Wait::No))?.create(project.clock().now())?;
///
/// let held = project.hold()?;
/// let engine = project.engine(Locking::Held(held.guard), Hub::new("mine"), Observers::default())?;
/// let id = TaskId::parse("parser")?;
/// let fields = Edit::nothing(id.clone());
/// engine.keeper().apply(Command::Add(Add { id: Some(id), title: "Parse".into(), fields }))?;
/// engine.end()?;
/// assert_eq!(project.snapshot()?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Project {
    root: PathBuf,
    state_home: Option<PathBuf>,
    secrets: Redactor,
    clock: Arc<dyn Clock>,
    backing: Backing,
}

impl Project {
    /// Opens the project whose state root is the folder `root`. There may be no ledger yet.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self {
            root: root.canonicalize()?,
            state_home: None,
            secrets: Redactor::default(),
            clock: Arc::new(SystemClock),
            backing: Backing::default(),
        })
    }

    /// Sets the user's state directory. A store keeps the key of its seal there and, without git,
    /// the journal.
    #[must_use]
    pub fn with_state_home(self, state_home: Option<PathBuf>) -> Self {
        Self { state_home, ..self }
    }

    /// Sets the texts that must not be stored.
    #[must_use]
    pub fn with_secrets(self, secrets: Redactor) -> Self {
        Self { secrets, ..self }
    }

    /// Sets another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Returns the state root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the files of the root.
    pub fn home(&self) -> Home<'_> {
        Home::of(&self.root)
    }

    /// Returns the clock of its decisions.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Acquires the lock, for a process that works here alone. It does not wait for another
    /// process.
    pub fn hold(&self) -> Result<Acquired<StateLock>, StoreError> {
        self.hold_within(Wait::No)
    }

    /// Acquires the lock, for a process that works here beside others and holds it for a moment.
    pub fn hold_within(&self, wait: Wait) -> Result<Acquired<StateLock>, StoreError> {
        Ok(StateLock::acquire(&self.root, wait)?)
    }

    /// Opens the store over the files of the root, wherever the ledger is kept, without the gate that
    /// keeps secrets out.
    pub fn file_store(&self, locking: Locking) -> Result<FileStore, StoreError> {
        FileStore::open_with(&self.root, locking, self.state_home.as_deref())
    }

    /// Starts the writer of the root. Committed facts go to `hub`, then to `observers` in their
    /// order; the observers also receive the events of the hub.
    ///
    /// A process that does not hold the lock for its whole life works for others. Their claims are
    /// then protected against edits of the file.
    pub fn engine(
        &self,
        locking: Locking,
        hub: Hub,
        observers: Observers,
    ) -> Result<Engine<Writer>, StoreError> {
        let tenure = match &locking {
            Locking::Each(_) | Locking::Elsewhere => Tenure::Shared,
            Locking::Held(_) | Locking::HeldElsewhere => Tenure::Sole,
        };
        let store = self.store(locking)?;
        let engine = match (tenure, self.backing.is_files()) {
            (Tenure::Sole, true) => self.engine_over(store, tenure, hub, observers),
            // A ledger in a database has no file that others could edit.
            (Tenure::Shared, _) | (Tenure::Sole, false) => {
                self.engine_over(store.hosting(), Tenure::Shared, hub, observers)
            }
        }?;
        engine.follow_others()?;
        Ok(engine)
    }

    /// Does the same over any store.
    fn engine_over(
        &self,
        store: impl Store + 'static,
        tenure: Tenure,
        hub: Hub,
        observers: Observers,
    ) -> Result<Engine<Writer>, StoreError> {
        let store = Redacted::new(store, self.secrets.clone());
        let all = Observers::default().with(hub.clone()).with(observers.clone());
        let keeper = Arc::new(Writer::start(store, Arc::clone(&self.clock), all)?);
        #[cfg(feature = "postgres")]
        let following =
            following::Following::of(&self.root, &self.backing, &keeper, observers.clone());
        let place = match self.backing.is_files() {
            true => LedgerPlace::Here,
            false => LedgerPlace::Database,
        };
        let engine = Engine::of(Parts {
            root: self.root.clone(),
            keeper,
            hub,
            observers,
            clock: Arc::clone(&self.clock),
            secrets: self.secrets.clone(),
            tenure,
        });
        #[cfg(feature = "postgres")]
        let engine = engine.following(following);
        Ok(engine.keeping(place))
    }

    /// Starts the engine of a run, with the [hub](ActiveRun::hub) of that run. Its events are
    /// recorded in the state root. A lock in `locking` is held until it ends.
    pub fn engine_of(
        &self,
        run: &ActiveRun,
        locking: Locking,
        hub: Hub,
        observers: Observers,
    ) -> Result<Engine<Writer>, StoreError> {
        let observers = self.recording(run, &hub, observers)?;
        self.engine(locking, hub, observers)
    }

    /// Starts the engine of a run that works beside others, over the store of another process.
    #[doc(hidden)]
    pub fn engine_beside(
        &self,
        run: &ActiveRun,
        store: impl Store + 'static,
        hub: Hub,
        observers: Observers,
    ) -> Result<Engine<Writer>, StoreError> {
        let observers = self.recording(run, &hub, observers)?;
        self.engine_over(store, Tenure::Shared, hub, observers)
    }

    /// Records the events of a run in the state root, before its other observers see them.
    fn recording(
        &self,
        run: &ActiveRun,
        hub: &Hub,
        observers: Observers,
    ) -> Result<Observers, StoreError> {
        if run.row().objective.is_none() {
            // Hooks act only while there is a session.
            RealDisk::open(&self.root)?.make_marker()?;
        }
        let path = self.home().runs().join(format!("{}.jsonl", run.recorded_as()));
        let recorder = Recorder::start(&path, self.secrets.clone(), hub);
        Ok(Observers::default().with(recorder).with(observers))
    }

    /// Returns the stored run that can be resumed: the one of this name, or the newest one. It
    /// takes no lock.
    #[cfg(feature = "sqlite")]
    pub fn resumable(&self, id: Option<&RunId>) -> Result<Run, RunError> {
        let runs = self.look_at_runs()?.ok_or(RunError::NothingToResume)?;
        RunRecord::resumable(&*runs, id)
    }

    /// Opens or resumes the row of a run, for this process, which holds the lock. The row belongs
    /// to this process until [`ActiveRun::end`]. Processes that a killed run left are ended first,
    /// because they could still write into the work tree.
    #[cfg(feature = "sqlite")]
    pub fn begin(&self, _held: &StateLock, start: RunStart) -> Result<ActiveRun, RunError> {
        let swept = leftovers::sweep(&self.home().processes()).map_err(RunError::Leftovers)?;
        let ended = swept.ended.iter().map(|left| RunWarning::LeftoverEnded { pid: left.pid });
        let record = RunRecord {
            runs: self.runs()?,
            terms: self.state_home.as_deref().map(|home| KeptTerms::of(&self.root, home)),
            driver: RunDriver::this_process(),
            clock: Arc::clone(&self.clock),
        };
        Ok(record.begin(&self.snapshot()?, start)?.after(ended.collect()))
    }

    /// Returns the access to the budget of a run that no process drives: the one of this name, or the
    /// newest one that can be resumed.
    #[cfg(feature = "sqlite")]
    pub fn budget(&self, id: Option<&RunId>) -> Result<RunBudget, RunError> {
        let run = self.resumable(id)?;
        Ok(RunBudget {
            run: run.id,
            // The name of an owner that is gone is no secret; a live one is respected.
            by: run.lease.map(|lease| lease.owner).filter(is_gone),
            runs: self.runs()?,
            terms: self.state_home.as_deref().map(|home| KeptTerms::of(&self.root, home)),
            clock: Arc::clone(&self.clock),
        })
    }

    /// Returns the runs over the ledger that live processes drive, newest first. It takes no lock.
    #[cfg(feature = "sqlite")]
    pub fn driven_runs(&self) -> Result<Vec<Run>, RunError> {
        let Some(runs) = self.look_at_runs()? else { return Ok(Vec::new()) };
        RunRecord::driven(&*runs)
    }
}
