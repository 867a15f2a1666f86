//! The tools that all workers of a run share.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use harness::{
    Branch, Error, Hold, Ports, Result,
    agent::Desk,
    blocking::blocking,
    core::{Command, Holder, Ledger, Run, RunId, Task, Timestamp, variables::Variables},
    home::{Home, folder::Folder},
    process::Redactor,
    shell::{Cancel, Ran, Shell},
    store::Runs,
    workspace,
};

/// The ports and places of a run. The [bench](super::Bench) contains what differs between workers.
#[derive(Clone)]
pub struct Tools {
    /// The ports through which decisions become durable, and the clock.
    pub ports: Ports,
    /// Holds what needs the store while that cannot be reached, as the commits of the ports do.
    pub hold: Hold,
    /// Runs checks, the init script and cleanups.
    pub shell: Arc<dyn Shell>,
    /// Reads the current ledger.
    pub ledger: Arc<dyn Fn() -> Result<Ledger> + Send + Sync>,
    /// The number of the session, as last seen.
    pub session: Arc<AtomicU64>,
    /// The state root.
    pub root: PathBuf,
    /// The caller's environment. Agents receive the part of it that they may see.
    pub environment: Vec<(OsString, OsString)>,
    /// Removes the secrets of the environment, and those that the configuration passes to agents,
    /// from every text.
    pub redactor: Redactor,
    /// The name of this run.
    pub run_id: String,
    /// The duration of a claim without a sign of life.
    pub lease_seconds: u64,
    /// The longest silence of each agent, in the order of [`Team`](super::Team).
    pub stalls: Vec<Option<Duration>>,
    /// The desk through which working agents can be reached.
    pub desk: Desk,
    /// The user's name for the committer of an attempt's commits, to which a mark is added; `None`
    /// if commits of attempts are not marked.
    pub committer: Option<String>,
    /// The socket on which agents ask their host, if there is one.
    pub socket: Option<PathBuf>,
    /// The rules by which work is judged, and the record of the result.
    pub judging: super::Judging,
    /// The run, and the settings of its loops over contexts.
    pub loops: super::LoopSettings,
    /// What several workers share; `None` for one worker in the main tree.
    pub shared: Option<super::SharedWork>,
}

/// Runs `act` on a thread that may block. It is asked to stop when the branch has to end or nothing
/// waits for it any more.
pub(super) async fn until_cancelled<A, T: Send + 'static>(
    branch: &Branch<A>,
    act: impl FnOnce(&Cancel) -> Result<T> + Send + 'static,
) -> Result<T> {
    struct StopOnDrop(Cancel);
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let cancel = Cancel::new()?;
    let stop = StopOnDrop(cancel.clone());
    let mut running = std::pin::pin!(blocking(move || act(&cancel)));
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = branch.cancelled().cancelled() => {
            stop.0.cancel();
            running.await
        }
    };
    ended.map_err(Error::other)?
}

impl Tools {
    /// Returns whether there is an init script. Anything but a file is an error: a link could run
    /// any program, and a pipe would block.
    pub(super) fn has_init_script(&self) -> Result<bool> {
        Ok(Folder::open(&self.root)?.has(Home::INIT_SCRIPT)?)
    }

    /// Runs `act` on a thread that may block.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        blocking(act).await.map_err(Error::other)?
    }

    /// Returns the remaining time, at least one second. Without an end it is practically unlimited.
    pub(super) fn seconds_until(&self, end: Option<Timestamp>) -> u64 {
        end.map_or(u64::MAX, |end| end.since(self.ports.clock.now()).max(1))
    }

    /// Commits a command. A refusal is an error here, because no machine decides about it.
    pub(super) async fn commit(&self, command: Command) -> Result<()> {
        match self.ports.commit.commit(command).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(refusal)) => Err(Error::message(refusal.to_string())),
            Err(error) => Err(Error::Commit(error)),
        }
    }

    /// Reads the current ledger, when the store can be reached.
    pub(super) async fn read_ledger(&self) -> Result<Ledger> {
        self.hold.hold(|| self.read_ledger_now()).await
    }

    /// Reads the current ledger, or fails. A database may let it wait for a while, in which this thread
    /// has to watch over agents.
    pub(super) async fn read_ledger_now(&self) -> Result<Ledger> {
        let ledger = Arc::clone(&self.ledger);
        let ledger = self.blocking(move || ledger()).await?;
        self.session.store(ledger.head().session_count, Ordering::Relaxed);
        Ok(ledger)
    }

    /// Uses the record of runs, when it can be reached.
    pub(super) async fn with_runs<T: Send + 'static>(
        &self,
        act: impl Fn(&dyn Runs) -> Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        let once = || {
            let (runs, act) = (Arc::clone(&self.loops.runs), act.clone());
            self.blocking(move || act(&*runs))
        };
        self.hold.hold(once).await
    }

    /// Returns the stored row of a run.
    pub(super) async fn run_row(&self, id: &RunId) -> Result<Run> {
        self.hold.hold(|| self.run_row_now(id)).await
    }

    /// Returns the stored row of a run, or fails.
    pub(super) async fn run_row_now(&self, id: &RunId) -> Result<Run> {
        let (runs, id) = (Arc::clone(&self.loops.runs), id.clone());
        self.blocking(move || {
            runs.run(&id)?.ok_or_else(|| Error::message(format!("there is no run {id}")))
        })
        .await
    }

    /// Returns the end of a check's output, for people and prompts.
    pub(super) fn output(&self, ran: &Ran, bytes: usize) -> String {
        // The whole text is redacted before it is cut, because half of a secret is not recognised.
        let shown = self.redactor.bytes(&ran.tail);
        let from = shown.len().saturating_sub(bytes);
        String::from_utf8_lossy(&shown[from..]).into_owned()
    }

    /// Returns the variables that every agent, check, cleanup and summarizer receives, as far as
    /// they are known. The path of a prompt goes only to its own agent, with the execution.
    pub(super) async fn variables(
        &self,
        about: Option<(&Task, &Holder)>,
        iteration: Option<u32>,
    ) -> Vec<(String, String)> {
        // The session number of the log. It is for people only, so that the last one that was seen is
        // enough if the ledger cannot be read.
        _ = self.read_ledger_now().await;
        let session = self.session.load(Ordering::Relaxed);
        let all = Variables::of_root(self.root.display()).run(&self.run_id).session(session);
        let all = all.socket(self.socket.as_ref().map(|path| path.display()));
        let Some((task, holder)) = about else { return all.iteration(iteration).list() };
        let epoch = task.epoch.unwrap_or_default();
        let mark = |user: &String| workspace::committer(user, &task.id, epoch);
        let all = all.task(task, holder).committer(self.committer.as_ref().map(mark));
        all.iteration(iteration).list()
    }

    /// Returns the iteration for the checks of an objective; `None` in a run over the ledger.
    pub(super) async fn iteration(&self) -> Result<Option<u32>> {
        let row = self.run_row(&self.loops.run).await?;
        Ok(row.objective.is_some().then_some(row.iteration_count))
    }
}
