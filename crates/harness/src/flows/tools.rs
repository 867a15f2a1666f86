//! What all workers of a run share.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use harness::{
    Branch, Error, Ports, Result,
    agent::Desk,
    core::{Command, Holder, Ledger, Run, RunId, Task, Timestamp, variables::Variables},
    home::{Home, folder::Folder},
    process::Redactor,
    shell::{Cancel, Ran, Shell},
    workspace,
};

/// The ports, and where everything is. What differs from worker to worker is on its
/// [bench](super::Bench).
#[derive(Clone)]
pub struct Tools {
    /// Where decisions become true, and what time it is.
    pub ports: Ports,
    /// Checks, the init script, cleanups.
    pub shell: Arc<dyn Shell>,
    /// Reads the ledger as it stands.
    pub ledger: Arc<dyn Fn() -> Result<Ledger> + Send + Sync>,
    /// The state root.
    pub root: PathBuf,
    /// The caller's environment, for agents to be given what they may see of it.
    pub environment: Vec<(OsString, OsString)>,
    /// Hides their secrets, and those that the configuration gives to agents, from every text.
    pub redactor: Redactor,
    /// The name of this run.
    pub run_id: String,
    /// How long a claim lasts without a word.
    pub lease_seconds: u64,
    /// How long each of the agents may be silent, by preference as in [`Team`](super::Team).
    pub stalls: Vec<Option<Duration>>,
    /// Where agents that are at work can be reached.
    pub desk: Desk,
    /// The user's name for the committer of what an attempt commits, to which its mark is added;
    /// `None`: commits of attempts are not marked.
    pub committer: Option<String>,
    /// What they ask their host on, if there is one.
    pub socket: Option<PathBuf>,
    /// How work is judged, and where that is recorded.
    pub judging: super::Judging,
    /// The run that this is, and how its loops over contexts go.
    pub loops: super::LoopSettings,
}

/// Does something on a thread that may block, and asks it to stop when the branch has to end or
/// nobody waits for it any more.
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
    let mut running = tokio::task::spawn_blocking(move || act(&cancel));
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
    /// What is there and is no file is an error: a link could run anything, a pipe would hang.
    pub(super) fn has_init_script(&self) -> Result<bool> {
        Ok(Folder::open(&self.root)?.has(Home::INIT_SCRIPT)?)
    }

    /// Does something on a thread that may block.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        tokio::task::spawn_blocking(act).await.map_err(Error::other)?
    }

    /// What is left, at least a second; without an end, more than anything may take.
    pub(super) fn seconds_until(&self, end: Option<Timestamp>) -> u64 {
        end.map_or(u64::MAX, |end| end.since(self.ports.clock.now()).max(1))
    }

    /// A refusal is an error here: nobody decides about it.
    pub(super) async fn commit(&self, command: Command) -> Result<()> {
        match self.ports.commit.commit(command).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(refusal)) => Err(Error::message(refusal.to_string())),
            Err(error) => Err(Error::Commit(error)),
        }
    }

    /// As it is stored.
    pub(super) async fn run_row(&self, id: &RunId) -> Result<Run> {
        let (runs, id) = (Arc::clone(&self.loops.runs), id.clone());
        self.blocking(move || {
            runs.run(&id)?.ok_or_else(|| Error::message(format!("there is no run {id}")))
        })
        .await
    }

    /// The end of what a check printed, for people and prompts.
    pub(super) fn output(&self, ran: &Ran, bytes: usize) -> String {
        // As a whole: a secret that was cut in two would not be known any more.
        let shown = self.redactor.bytes(&ran.tail);
        let from = shown.len().saturating_sub(bytes);
        String::from_utf8_lossy(&shown[from..]).into_owned()
    }

    /// What every agent, check, cleanup and summarizer finds in its environment, as far as it is
    /// known there. Where a prompt is, only its own agent is told: the file goes with the execution.
    pub(super) fn variables(
        &self,
        about: Option<(&Task, &Holder)>,
        iteration: Option<u32>,
    ) -> Vec<(String, String)> {
        // As the log counts. It is for people only, so a ledger that cannot be read does not matter.
        let session = (self.ledger)().map_or(0, |ledger| ledger.head().session_count);
        let all = Variables::of_root(self.root.display()).run(&self.run_id).session(session);
        let all = all.socket(self.socket.as_ref().map(|path| path.display()));
        let Some((task, holder)) = about else { return all.iteration(iteration).list() };
        let epoch = task.epoch.unwrap_or_default();
        let mark = |user: &String| workspace::committer(user, &task.id, epoch);
        let all = all.task(task, holder).committer(self.committer.as_ref().map(mark));
        all.iteration(iteration).list()
    }

    /// For the checks of an objective; `None` in a run over the ledger.
    pub(super) async fn iteration(&self) -> Result<Option<u32>> {
        let row = self.run_row(&self.loops.run).await?;
        Ok(row.objective.is_some().then_some(row.iteration_count))
    }
}
