//! The daemon, a host without a run: it imports plans, gives out tasks and checks the results.

use std::{
    collections::{BTreeSet, HashMap},
    future::Future,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use harness_core::{
    Epoch, Fact, Holder, Task, TaskId, Timestamp, WorkerId, machine::judge::Rules, trust::Kind,
};
use tokio::sync::{OwnedMutexGuard, watch};
use tokio_util::sync::CancellationToken;

use super::{
    claim_rules::ClaimRules,
    server::{Host, Server, serve},
    socket::Bound,
    vigil::Vigil,
    workshop::{OwnTree, Workshop},
};
use crate::{
    clock::Clock,
    home::Home,
    process::leftovers,
    protocol::Refused,
    store::{Observer, Transaction, lock::Wait},
    workspace::{Bring, Filters},
};

/// The interval of checks whether it can still be found, because a host without a socket is of no
/// use.
const LOOK: Duration = Duration::from_secs(10);

/// The rules for judging a completion.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The rules that apply unless a task sets others.
    pub rules: Rules,
    /// Whether a task without a check can be completed.
    pub unchecked: harness_core::command::Unchecked,
    /// The files that clean checkouts get beside the commit.
    pub bring: Bring,
}

impl Settings {
    /// Drops the content of harness's own settings, which is known only for a claim.
    #[must_use]
    pub fn of_no_claim(mut self) -> Self {
        self.rules.protected = self.rules.protected.of_no_claim();
        self
    }
}

/// Refuses a command that may not run here.
pub type MayRun = dyn Fn(Kind, &str) -> Result<(), Refused> + Send + Sync;

/// The caller's knowledge about the machine and its user. It is asked again each time.
pub struct Surroundings {
    /// The configuration.
    pub settings: Box<dyn Fn() -> Result<Settings, Refused> + Send + Sync>,
    /// Returns whether this command of the ledger may run here.
    pub may_run: Box<MayRun>,
    /// Returns whether the content filters of git may run here.
    pub filters: Box<dyn Fn() -> Filters + Send + Sync>,
    /// The place of the rules of claims; `None` for memory only.
    pub claims: Option<ClaimRules>,
    /// Called when a ledger was created.
    pub made: Box<dyn Fn() + Send + Sync>,
    /// Receives a warning.
    pub warn: Box<dyn Fn(&str) + Send + Sync>,
    /// The user's state directory, where a store keeps files that do not belong beside a ledger.
    pub state_home: Option<PathBuf>,
    /// The place where git's settings at claims are recorded; `None` for nowhere.
    pub records: Option<PathBuf>,
}

/// The parts of a daemon beyond the rest of a [`Host`].
pub struct Daemon {
    pub(super) workshop: Arc<dyn Workshop>,
    pub(super) surroundings: Surroundings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) lock_wait: Wait,
    /// Cancelled when it wants to end, so that waiting requests are answered.
    pub(super) leaving: CancellationToken,
    /// `true` if no more tasks are given out.
    closing: AtomicBool,
    changed: watch::Sender<()>,
    /// `true` if something already waits for the ends of leases.
    watching: AtomicBool,
    /// The rules of the claims that this daemon made.
    claimed: Mutex<HashMap<TaskId, (Epoch, Settings)>>,
    checking: Mutex<HashMap<TaskId, Arc<tokio::sync::Mutex<()>>>>,
    /// The claims that it gave out.
    vigil: Vigil,
    /// The gate that was last tried. Only one is tried at a time.
    pub(super) gate: tokio::sync::Mutex<Option<super::verbs::Tried>>,
}

impl Daemon {
    /// Creates a daemon. Checks run in `worktree`. If there is no ledger, one is created under the
    /// lock of its root.
    pub fn new(
        worktree: PathBuf,
        surroundings: Surroundings,
        clock: Arc<dyn Clock>,
        lock_wait: Wait,
    ) -> Self {
        let workshop = Arc::new(OwnTree::new(worktree, surroundings.records.clone()));
        Self::over(workshop, surroundings, clock, lock_wait)
    }

    /// Creates a daemon that looks at the work of clients in `workshop`.
    pub fn over(
        workshop: Arc<dyn Workshop>,
        surroundings: Surroundings,
        clock: Arc<dyn Clock>,
        lock_wait: Wait,
    ) -> Self {
        Self {
            workshop,
            surroundings,
            clock,
            lock_wait,
            leaving: CancellationToken::new(),
            closing: AtomicBool::new(false),
            changed: watch::Sender::new(()),
            watching: AtomicBool::new(false),
            claimed: Mutex::default(),
            checking: Mutex::default(),
            vigil: Vigil::default(),
            gate: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Records that a worker holds `task` until `expires_at`, whatever the clock will be.
    pub(super) fn gave(
        &self,
        root: &Path,
        task: &TaskId,
        worker: &WorkerId,
        expires_at: Option<Timestamp>,
    ) {
        if let Some(end) = expires_at.filter(|_| self.clock.may_be_set()) {
            let lease = Duration::from_secs(end.since(self.clock.now()));
            self.vigil.watch(root, task, worker, lease);
        }
    }

    /// Returns the tasks that workers hold from it.
    pub(super) fn given(&self) -> BTreeSet<TaskId> {
        self.vigil.tasks()
    }

    /// Ends the leases that it gave out when they are over, until it leaves. It does so once, however
    /// many sockets it serves.
    pub(super) async fn watch_leases(&self) {
        if self.watching.swap(true, Ordering::Relaxed) {
            return;
        }
        tokio::select! {
            () = self.vigil.keep(|| self.changed.send_replace(())) => {}
            () = self.leaving.cancelled() => {}
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    pub(super) fn open_again(&self) {
        self.closing.store(false, Ordering::Relaxed);
    }

    /// Waits for the turn to complete a task, because two checks in one tree could not be
    /// distinguished.
    pub(super) async fn turn(&self, task: &TaskId) -> OwnedMutexGuard<()> {
        let mine = {
            let mut all = self.checking.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(all.entry(task.clone()).or_default())
        };
        mine.lock_owned().await
    }

    /// Records git's settings for a new claim before the worker starts. It blocks.
    pub(super) fn record_settings(&self, root: &Path, task: &Task) {
        if let Err(why) = self.workshop.record_settings(root, task) {
            let text = format!("git's settings were not recorded for {}: {why}", task.id);
            (self.surroundings.warn)(&text);
        }
    }

    /// Stores the current rules for a new claim. A configuration that cannot be read is reported
    /// when the task is completed. Returns a message for the log.
    pub(super) fn claimed(&self, task: &TaskId, epoch: Epoch) -> Option<String> {
        let settings = (self.surroundings.settings)().ok()?;
        let protected = &settings.rules.protected;
        // Without a comparison, nothing is known to have changed.
        let kept = self.surroundings.claims.as_ref();
        let changed = kept.and_then(|kept| kept.compare(protected).ok().flatten());
        if let Some(kept) = &self.surroundings.claims
            && let Err(why) = kept.keep(task, epoch, &settings)
        {
            let text = format!("the rules of the claim of {task} are kept in memory only: {why}");
            (self.surroundings.warn)(&text);
        }
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.insert(task.clone(), (epoch, settings));
        changed
    }

    /// Returns the rules for judging the work of this holder: those of its claim, or the current
    /// ones.
    pub(super) fn rules_for(
        &self,
        holder: &Holder,
        task: Option<&Task>,
    ) -> Result<Settings, Refused> {
        let epoch = task.filter(|task| holder.holds(task)).and_then(|task| task.epoch);
        let of_now = || Ok((self.surroundings.settings)()?.of_no_claim());
        let Some(epoch) = epoch else { return of_now() };
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, settings)) = claimed.get(&holder.task).filter(|(of, _)| *of == epoch) {
            return Ok(settings.clone());
        }
        drop(claimed);
        let kept = self.surroundings.claims.as_ref().and_then(|kept| kept.of(&holder.task, epoch));
        kept.map_or_else(of_now, Ok)
    }
}

impl Observer for Daemon {
    /// Wakes requests that wait for a task.
    fn committed(&self, transaction: &Transaction<'_>) {
        self.vigil.heard(transaction.facts);
        let of_holders = |fact: &Fact| {
            matches!(fact, Fact::Claimed { .. } | Fact::Renewed { .. } | Fact::Checkpointed { .. })
        };
        if !transaction.facts.iter().all(of_holders) {
            self.changed.send_replace(());
        }
    }

    fn relayed(&self, transaction: &Transaction<'_>) {
        self.committed(transaction);
    }

    fn changed_elsewhere(&self) {
        self.changed.send_replace(());
    }
}

/// The reason why a daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked by a signal, `shutdown` or `yield`.
    Asked,
    /// It had no request for that long.
    Idle,
    /// Its socket or its root was removed.
    Lost,
}

/// Serves until it is asked to end, it has had no connection for as long as `idle`, or it cannot be
/// found any more. Pending requests are answered then. It runs inside a tokio runtime.
pub async fn serve_alone(
    bound: Bound,
    host: Host,
    daemon: &Daemon,
    idle: Option<Duration>,
    asked: impl Future<Output = ()>,
) -> io::Result<Ended> {
    keep_serving(serve(bound, host)?, daemon, idle, asked).await
}

/// Does the same for a server that has started.
pub(super) async fn keep_serving(
    server: Server,
    daemon: &Daemon,
    idle: Option<Duration>,
    asked: impl Future<Output = ()>,
) -> io::Result<Ended> {
    let host = server.host();
    let left = Home::of(&host.root).processes();
    let every = Duration::from_secs((host.lease_seconds / 3).max(1));
    let sweeping = tokio::spawn(leftovers::keep_sweeping(left, every));
    let ended = tokio::select! {
        () = daemon.leaving.cancelled() => Ended::Asked,
        () = asked => Ended::Asked,
        () = nobody_came(server.connections(), idle) => Ended::Idle,
        () = lost(&server) => Ended::Lost,
        () = daemon.vigil.keep(|| daemon.changed.send_replace(())) => Ended::Asked,
    };
    daemon.close();
    daemon.leaving.cancel();
    sweeping.abort();
    server.end().await;
    Ok(ended)
}

async fn nobody_came(mut connections: watch::Receiver<usize>, idle: Option<Duration>) {
    let Some(idle) = idle else { return std::future::pending().await };
    loop {
        let nobody = *connections.borrow_and_update() == 0;
        let changed = connections.changed();
        let changed =
            if nobody { tokio::time::timeout(idle, changed).await } else { Ok(changed.await) };
        if changed.is_err() {
            return;
        }
    }
}

async fn lost(server: &Server) {
    while server.can_be_found() {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = server.stranded() => return,
        }
    }
}
