//! What a session works with.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use harness::{
    Branch, Error, Named, Ports, Result,
    agent::Prompt,
    core::{
        Holder, Ledger, Task,
        check::{Found, Verdict},
    },
    host::Desk,
    process::Limits,
    shell::{Cancel, Ran, Script, Shell},
    workspace::{Base, Workspace},
};

/// How long the init script and a cleanup may take.
const SCRIPT_SECONDS: u64 = 600;

/// The agents of a session: one, that works.
pub struct Team<A> {
    /// Whoever does the tasks.
    pub worker: Named<A>,
}

/// The ports, and where everything is.
#[derive(Clone)]
pub struct Tools {
    /// Where decisions become true, and what time it is.
    pub ports: Ports,
    /// Git.
    pub workspace: Arc<dyn Workspace>,
    /// Checks, the init script, cleanups.
    pub shell: Arc<dyn Shell>,
    /// Reads the ledger as it stands.
    pub ledger: Arc<dyn Fn() -> Result<Ledger> + Send + Sync>,
    /// The state root.
    pub root: PathBuf,
    /// The caller's environment, for agents to be given what they may see of it.
    pub environment: Vec<(OsString, OsString)>,
    /// The name of this run.
    pub run_id: String,
    /// How long a claim lasts without a word.
    pub lease_seconds: u64,
    /// How long an agent may be silent.
    pub stall: Option<Duration>,
    /// Where agents that are at work can be reached.
    pub desk: Desk,
    /// What they ask their host on, if there is one.
    pub socket: Option<PathBuf>,
    /// How work is judged, and where that is recorded.
    pub judging: super::Judging,
}

impl Tools {
    pub(super) fn init_script(&self) -> PathBuf {
        self.root.join("harness-init.sh")
    }

    /// Runs the init script in the state root; `None` where there is none.
    pub(super) async fn prepare<A>(&self, branch: &Branch<A>) -> Result<Option<Verdict>> {
        if !self.init_script().exists() {
            return Ok(None);
        }
        // By its own first line where it can be executed, else by sh.
        let command = "if [ -x ./harness-init.sh ]; then ./harness-init.sh; \
                       else sh ./harness-init.sh; fi";
        let script = self.script(command, &self.root, SCRIPT_SECONDS, None);
        let ran = self.run(branch, script).await?;
        Ok(Some(Verdict::of(Found::Yes, ran.exit)))
    }

    pub(super) async fn clean_up<A>(
        &self,
        branch: &Branch<A>,
        command: &str,
        task: &Task,
        holder: &Holder,
    ) -> Result<Ran> {
        let directory = self.workspace.top_level();
        let script = self.script(command, directory, SCRIPT_SECONDS, Some((task, holder)));
        self.run(branch, script).await
    }

    fn script(
        &self,
        command: &str,
        directory: &Path,
        seconds: u64,
        about: Option<(&Task, &Holder)>,
    ) -> Script {
        let mut environment = vec![self.root_variable()];
        if let Some((task, holder)) = about {
            environment.extend(self.variables(task, holder));
        }
        Script {
            command: command.to_owned(),
            directory: directory.to_owned(),
            timeout: Duration::from_secs(seconds.max(1)),
            environment,
        }
    }

    async fn run<A>(&self, branch: &Branch<A>, script: Script) -> Result<Ran> {
        let shell = Arc::clone(&self.shell);
        self.until_cancelled(branch, move |cancel| Ok(shell.run_until(&script, cancel)?)).await
    }

    /// Does something on a thread that may block, and asks it to stop when the branch has to end.
    pub(super) async fn until_cancelled<A, T: Send + 'static>(
        &self,
        branch: &Branch<A>,
        act: impl FnOnce(&Cancel) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let cancel = Cancel::new()?;
        let stop = cancel.clone();
        let mut running = tokio::task::spawn_blocking(move || act(&cancel));
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = branch.cancelled().cancelled() => {
                stop.cancel();
                running.await
            }
        };
        ended.map_err(Error::other)?
    }

    /// Asks git something on a thread that may block.
    pub(super) async fn git<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Workspace) -> T + Send + 'static,
    ) -> Result<T> {
        let workspace = Arc::clone(&self.workspace);
        let asked = tokio::task::spawn_blocking(move || ask(&*workspace)).await;
        asked.map_err(Error::other)
    }

    /// What a claim recorded of the tree that it started from; `None` where it recorded nothing.
    pub(super) fn base(&self, task: &Task) -> Option<Base> {
        Some(Base {
            commit: task.started_at_commit.clone()?,
            branch: task.branch.clone(),
            untracked: task.base_untracked.clone(),
            worktree: task
                .worktree
                .as_ref()
                .map_or_else(|| self.workspace.top_level().to_owned(), PathBuf::from),
        })
    }

    /// What the agent is given for one execution.
    pub(super) fn prompt(&self, task: &Task, holder: &Holder, after_step: Option<u32>) -> Prompt {
        let mut text = format!("{}\n", task.title);
        if let Some(instructions) = &task.instructions {
            text = format!("{text}\n{instructions}\n");
        }
        if let Some(step) = after_step {
            text = format!("{text}\nThe work is done up to step {step}: go on from there.\n");
        }
        let mut environment = self.environment.clone();
        let own = [self.root_variable()].into_iter().chain(self.variables(task, holder));
        environment.extend(own.map(|(name, value)| (name.into(), value.into())));
        environment.push(("HARNESS_ITERATION".into(), "0".into()));
        if let Some(socket) = &self.socket {
            environment.push(("HARNESS_SOCKET".into(), socket.into()));
        }
        let epoch = task.epoch.unwrap_or_default();
        Prompt {
            text,
            instructions: task.instructions.clone(),
            promise: "TASK_COMPLETE".to_owned(),
            work_tree: self.workspace.top_level().to_owned(),
            environment,
            limits: Limits {
                timeout: task.timeout_seconds.map(Duration::from_secs),
                stall: self.stall,
                ..Limits::default()
            },
            run_id: self.run_id.clone(),
            name: format!("{}.{epoch}", task.id),
            folder: self.root.join(".harness"),
        }
    }

    /// What every agent, check and cleanup of an attempt finds in its environment.
    pub(super) fn variables(&self, task: &Task, holder: &Holder) -> [(String, String); 6] {
        // As the log counts: it is only for the eye, so a ledger that can not be read is no matter.
        let session = (self.ledger)().map_or(0, |ledger| ledger.head().session_count);
        [
            ("HARNESS_TASK_ID", task.id.to_string()),
            ("HARNESS_EPOCH", task.epoch.unwrap_or_default().to_string()),
            ("HARNESS_ATTEMPT", (task.attempts + 1).to_string()),
            ("HARNESS_WORKER_ID", holder.worker.to_string()),
            ("HARNESS_SESSION", session.to_string()),
            ("HARNESS_RUN_ID", self.run_id.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }

    pub(super) fn root_variable(&self) -> (String, String) {
        ("HARNESS_STATE_ROOT".to_owned(), self.root.display().to_string())
    }
}
