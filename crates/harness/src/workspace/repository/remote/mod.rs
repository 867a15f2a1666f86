//! A repository whose results land on a branch of a remote.
//!
//! Work trees, branches of attempts and rebases are those of the clone. The target, the token that
//! fences a landing and the commits that entries announce are on the server, where workers of other
//! clones see them. The tree of the user is left alone.
//!
//! The server may be away for a while, and the answer to a push may be lost. Every call tries again
//! within its patience, and looks at the server first: what a lost answer was about is seen there.

mod backup;
mod cleanup;
mod follow;
mod names;
mod port;
mod push;
mod results;
mod share;
mod swap;
mod tips;
mod transport;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use harness_core::{CommitId, Epoch, TaskId};

use self::{names::Names, tips::Tips, transport::Transport};
use super::GitRepository;
use crate::{process::Redactor, workspace::WorkspaceError};

pub(super) use self::tips::KNOWN;
pub use self::transport::RemoteAddress;

/// The first pause after a server could not be reached. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The time within which a claim gets an answer.
const MOMENT: Duration = Duration::from_secs(3);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The settings of a target on a remote.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// The remote.
    pub address: RemoteAddress,
    /// A name that differs between ledgers whose results land on the same remote, for the tokens that
    /// fence their landings: the tasks of two ledgers often have the same names.
    pub ledger: Option<String>,
    /// The time within which a call that cannot reach the server is tried again.
    pub patience: Duration,
    /// Whether snapshots of unfinished work are pushed.
    pub backups: Sharing,
    /// Whether rescues are pushed.
    pub rescues: Sharing,
    /// The values that must not get into a snapshot or a rescue on the server.
    pub secrets: Redactor,
}

/// Whether unfinished work is pushed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sharing {
    /// It is.
    #[default]
    Shared,
    /// It stays in this clone.
    Local,
}

/// A repository whose results land on a branch of a remote.
#[derive(Debug)]
pub struct RemoteRepository {
    local: Arc<GitRepository>,
    transport: Transport,
    settings: RemoteSettings,
    tips: Tips,
    state: Mutex<RemoteState>,
}

#[derive(Debug, Default)]
struct RemoteState {
    names: Names,
    /// The snapshots of each attempt of this process.
    backups: BTreeMap<(TaskId, Epoch), Arc<Mutex<backup::Backups>>>,
    warnings: Vec<String>,
}

impl RemoteRepository {
    /// Creates the value. Nothing is created on disk, and the server is not asked.
    pub fn new(local: Arc<GitRepository>, settings: RemoteSettings) -> Self {
        let transport = Transport::new(local.main.git.clone(), settings.address.clone());
        let tips = Tips::new(&settings.address.name);
        Self { local, transport, settings, tips, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, RemoteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self) -> &str {
        &self.settings.address.name
    }

    fn names(&self) -> Names {
        self.state().names
    }

    /// Keeps a warning for the log.
    fn warn(&self, message: String) {
        tracing::warn!("{message}");
        let mut state = self.state();
        if !state.warnings.contains(&message) {
            state.warnings.push(message);
        }
    }

    /// Notes that the server refuses refs below `refs/harness/`. From now on it gets branches where a
    /// ref is necessary, and no snapshots.
    fn use_branches(&self, why: &str) {
        if self.names() == Names::Branches {
            return;
        }
        self.state().names = Names::Branches;
        let name = self.name();
        self.warn(format!(
            "{name} refuses refs/harness/* ({why}): unfinished work is not saved there, and another \
             machine cannot continue it"
        ));
    }

    /// Returns the names that the token of a task may have.
    fn tokens(&self, task: &TaskId) -> [String; 2] {
        Names::ALL.map(|names| self.token(names, task))
    }

    fn token(&self, names: Names, task: &TaskId) -> String {
        names.token(self.settings.ledger.as_deref(), task)
    }

    fn retries(&self) -> Retries {
        Retries { until: Instant::now() + self.settings.patience, pause: FIRST_PAUSE }
    }

    /// Calls `act` until the server could be reached, for a moment: nothing is lost if it could not.
    fn reach_soon<T>(
        &self,
        act: impl FnMut() -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        self.reach_within(self.settings.patience.min(MOMENT), act)
    }

    /// Calls `act` until the server could be reached, within the patience.
    fn reach<T>(
        &self,
        act: impl FnMut() -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        self.reach_within(self.settings.patience, act)
    }

    fn reach_within<T>(
        &self,
        patience: Duration,
        mut act: impl FnMut() -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        let mut retries = Retries { until: Instant::now() + patience, pause: FIRST_PAUSE };
        loop {
            match act() {
                Err(why @ WorkspaceError::Unreachable { .. }) => retries.wait(why)?,
                done => return done,
            }
        }
    }

    /// Returns whether this clone has a commit with its contents.
    fn has(&self, commit: &CommitId) -> Result<bool, WorkspaceError> {
        let call = self.local.main.git.read("cat-file");
        let ran = call.args(["-e", &format!("{commit}^{{commit}}")]).run()?;
        Ok(ran.code == Some(0))
    }
}

/// The pauses between calls that could not reach the server.
struct Retries {
    until: Instant,
    pause: Duration,
}

impl Retries {
    /// Waits before the next try. Returns the error if there is no time left.
    fn wait(&mut self, why: WorkspaceError) -> Result<(), WorkspaceError> {
        if Instant::now() + self.pause > self.until {
            return Err(why);
        }
        thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}
