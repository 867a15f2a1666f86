//! The part of a bench that one of several workers has: the repository that they share, its own work
//! tree, and a way to wait for the others.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use harness::{
    Branch, Error, Result,
    blocking::blocking,
    core::{
        CommitId, Epoch, Ledger, Stop, Task, TaskId, Timestamp, WorkerId,
        agent::StoppedBy,
        command::Gone,
        machine::worker::{Abandoned, Others},
        run::StopReason,
        select::Applicant,
        stop::StopDetail,
        task::Via,
    },
    store::Changes,
    workspace::{
        Workspace, WorkspaceError,
        shared::{InitScript, LandStyle, SharedRepository, WorkerTree},
    },
};
use tokio::sync::watch;

use super::{Tools, loop_settings::purse, worker::in_main_tree};

/// The longest time between two looks at the ledger, which other processes change too.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// The same where the changes of all machines are reported, while somebody works: a worker of this machine
/// may die, and leases end.
const LOOK_AFTER_WORKERS: Duration = Duration::from_secs(5);
/// The same while nobody works.
const LOOK_WHEN_IDLE: Duration = Duration::from_secs(60);

/// The changes of the ledger that end a wait at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReportedChanges {
    /// Those of this process.
    #[default]
    Own,
    /// Those of all processes and machines.
    All,
}
/// The time within which the usage of other processes is noticed.
const BUDGET_LOOK: Duration = Duration::from_secs(10);

/// What the workers of a process share, beside their tools.
#[derive(Clone)]
pub struct SharedWork {
    /// The repository.
    pub repository: Arc<dyn SharedRepository>,
    /// Whether the commits of an attempt stay separate when they land.
    pub style: LandStyle,
    /// The number of results that prepare at the same time.
    pub preparing: usize,
    /// The changes of the ledger, as far as they are reported.
    pub changes: Changes,
    /// The changes that are reported.
    pub reported: ReportedChanges,
    /// The interval at which unfinished work is saved for workers of other machines; `None` if it is
    /// not.
    pub backup_interval: Option<Duration>,
    /// Returns whether a worker is surely dead, because the lock of its life is free on this host.
    pub is_dead: Arc<dyn Fn(&WorkerId) -> bool + Send + Sync>,
    /// Returns whether a worker is surely alive, because the lock of its life is held.
    pub is_alive: Arc<dyn Fn(&WorkerId) -> bool + Send + Sync>,
    /// The first reason for which a worker of this process stopped that stops all of them.
    stopped: Arc<Mutex<Option<Stop>>>,
    /// The workers of this process that were asked to leave.
    leaving: Arc<Mutex<BTreeSet<WorkerId>>>,
}

impl SharedWork {
    /// Creates the shared part for workers over `repository`. No worker counts as surely dead.
    pub fn new(repository: Arc<dyn SharedRepository>, changes: Changes) -> Self {
        Self {
            repository,
            style: LandStyle::default(),
            preparing: harness::core::line::PREPARING,
            changes,
            reported: ReportedChanges::default(),
            backup_interval: None,
            is_dead: Arc::new(|_| false),
            is_alive: Arc::new(|_| false),
            stopped: Arc::default(),
            leaving: Arc::default(),
        }
    }

    /// Lets these workers finish their task and leave. Others are not affected.
    pub fn ask_to_leave(&self, workers: &[WorkerId]) {
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.extend(workers.iter().cloned());
        drop(leaving);
        self.changes.notify();
    }

    /// Returns the stop of a worker that was asked to leave.
    fn asked_to_leave(&self, worker: &WorkerId) -> Option<Stop> {
        let leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        let words = || Stop::with_words(StopReason::Once, "it was asked to leave".to_owned());
        leaving.contains(worker).then(words)
    }

    /// Keeps the other workers from claiming more if this stop concerns all of them.
    pub(super) fn stop(&self, stop: &Stop) {
        if matches!(stop.reason, StopReason::Complete | StopReason::Once | StopReason::Cancelled) {
            return;
        }
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.get_or_insert_with(|| stop.clone());
        self.changes.notify();
    }

    /// Stops `branch` when the budget of the run is used up, by whatever worker: one of this process at
    /// once, one of another process within some seconds. It never completes.
    pub(super) async fn guard_budget<A: Send + Sync>(&self, branch: &Branch<A>, tools: &Tools) {
        let mut changes = self.changes.follow();
        // Simulated processes see each change at once.
        let others = tools.ports.clock.may_be_set();
        let first = tokio::time::Instant::now() + BUDGET_LOOK;
        let mut looks = tokio::time::interval_at(first, BUDGET_LOOK);
        loop {
            let used_up = tokio::select! {
                _ = looks.tick(), if others => is_used_up(branch, tools).await,
                _ = changes.changed() => {
                    self.stopped().is_some_and(|stop| stop.reason == StopReason::Budget)
                }
            };
            if used_up {
                branch.stop(StoppedBy::Budget);
                return std::future::pending().await;
            }
        }
    }

    /// Returns why the gate of a phase did not pass for a worker of this process.
    pub(super) fn closed_gate(&self, of: &str) -> Option<String> {
        match self.stopped()?.detail {
            StopDetail::Gate { phase, why } if phase == of => Some(why),
            _ => None,
        }
    }

    fn stopped(&self) -> Option<Stop> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns whether the budget of the run is used up. A row that cannot be read is asked for again. A
/// budget that was changed through another process holds here from now on.
async fn is_used_up<A: Send + Sync>(branch: &Branch<A>, tools: &Tools) -> bool {
    let Ok(row) = tools.run_row_now(&tools.loops.run).await else { return false };
    branch.hub().allow(row.allowance());
    purse(&row).used_up(tools.ports.clock.now()).is_some()
}

/// The place of one of several workers.
#[derive(Clone)]
pub struct OwnPlace {
    /// What it shares with the others.
    pub shared: SharedWork,
    /// Its id.
    pub worker: WorkerId,
    /// The folder of its work tree.
    folder: Option<PathBuf>,
    /// Its work tree, once it was opened.
    tree: Arc<Mutex<Option<Arc<dyn Workspace>>>>,
    changes: Arc<tokio::sync::Mutex<watch::Receiver<u64>>>,
    /// Whether somebody held a task at the last look.
    at_work: Arc<AtomicBool>,
}

impl OwnPlace {
    /// Creates the place of `worker`. Its tree is opened with its first task.
    pub fn new(shared: SharedWork, worker: WorkerId, folder: Option<PathBuf>) -> Self {
        let changes = Arc::new(tokio::sync::Mutex::new(shared.changes.follow()));
        let at_work = Arc::new(AtomicBool::new(true));
        Self { shared, worker, folder, tree: Arc::default(), changes, at_work }
    }

    /// Returns the folder of its work tree, whether it is open or not.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.folder.clone()
    }

    /// Returns the work tree; `None` before the first task.
    pub(super) fn tree(&self) -> Option<Arc<dyn Workspace>> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, tree: WorkerTree) -> InitScript {
        *self.tree.lock().unwrap_or_else(PoisonError::into_inner) = Some(tree.workspace);
        tree.init
    }

    /// Runs `act` on a thread that may block.
    pub(super) async fn repository<T: Send + 'static>(
        &self,
        act: impl FnOnce(&dyn SharedRepository, &WorkerId) -> T + Send + 'static,
    ) -> Result<T> {
        let (repository, worker) = (Arc::clone(&self.shared.repository), self.worker.clone());
        let done = blocking(move || act(&*repository, &worker)).await;
        done.map_err(Error::other)
    }

    /// Resets the tree to `commit`.
    pub(super) async fn reset(
        &self,
        commit: CommitId,
    ) -> Result<Result<InitScript, WorkspaceError>> {
        let tree = self.repository(move |repository, worker| repository.reset(worker, &commit));
        Ok(tree.await?.map(|tree| self.keep(tree)))
    }

    /// Resets the tree to the base of a claim, on the branch of the attempt.
    pub(super) async fn open(
        &self,
        commit: CommitId,
        task: TaskId,
        epoch: Epoch,
    ) -> Result<Result<InitScript, WorkspaceError>> {
        let opened = self.repository(move |repository, worker| {
            let tree = repository.reset(worker, &commit)?;
            repository.start_branch(worker, &task, epoch)?;
            Ok(tree)
        });
        Ok(opened.await?.map(|tree| self.keep(tree)))
    }

    /// Keeps a tree into which the work of another worker was brought.
    pub(super) fn transplanted(&self, tree: WorkerTree) -> InitScript {
        self.keep(tree)
    }

    /// Declares that the ledger is about to be read, so that a later change ends the next wait.
    pub(super) async fn about_to_look(&self) {
        self.changes.lock().await.mark_unchanged();
    }

    /// Waits until the ledger changed since the last look, for a second at most; longer where changes of
    /// others are reported, because a look costs a database something.
    pub(super) async fn wait<A>(&self, branch: &Branch<A>) {
        let longest = match (self.shared.reported, self.at_work.load(Ordering::Relaxed)) {
            (ReportedChanges::Own, _) => LOOK,
            (ReportedChanges::All, true) => LOOK_AFTER_WORKERS,
            (ReportedChanges::All, false) => LOOK_WHEN_IDLE,
        };
        let mut changes = self.changes.lock().await;
        tokio::select! {
            _ = changes.changed() => {}
            () = tokio::time::sleep(longest) => {}
            () = branch.cancelled().cancelled() => {}
        }
    }

    /// Returns what this worker sees of the others.
    pub(super) fn others(
        &self,
        ledger: &Ledger,
        now: Timestamp,
        main: &Path,
        of: Applicant<'_>,
    ) -> Others {
        let mut others = Others {
            session_claims: ledger.head().session_claims,
            stopped: self.shared.stopped().or_else(|| self.shared.asked_to_leave(&self.worker)),
            ..Others::default()
        };
        let claimed = ledger.selection().claimed().filter_map(|id| ledger.task(id));
        let is_own = |task: &&Task| task.claimed_by() == Some(&self.worker);
        // Its own claim, of an earlier life, comes first: with that, it can take no other task.
        let (own, rest): (Vec<_>, Vec<_>) = claimed.partition(is_own);
        self.at_work.store(!own.is_empty() || !rest.is_empty(), Ordering::Relaxed);
        for task in own.into_iter().chain(rest) {
            match self.gone(task, now, main) {
                // A task with other labels is left to a worker that has them.
                Some(gone) if others.abandoned.is_none() && (is_own(&task) || of.suits(task)) => {
                    others.abandoned = Some(Abandoned { task: Box::new(task.clone()), gone });
                }
                Some(_) => {}
                None => others.at_work = Some(task.id.clone()),
            }
        }
        others
    }

    /// Returns how it is known that the holder of a task is gone; `None` if it may be at work. A claim
    /// in the main tree is recovered at the start of a session, in that tree.
    fn gone(&self, task: &Task, now: Timestamp, main: &Path) -> Option<Gone> {
        let claim = task.claim()?;
        if task.claimed_via() != Via::Run || in_main_tree(task, main) {
            return None;
        }
        let by = claim.by.as_ref();
        if by == Some(&self.worker) || by.is_some_and(|by| (self.shared.is_dead)(by)) {
            return Some(Gone::Dead);
        }
        task.lease_ran_out(now).then_some(Gone::LeaseRanOut)
    }
}
