//! The bench of one worker: its work tree, its name, its handoff file, and the rows of its
//! attempts. The [tools](super::Tools) contain what all workers share.

use std::{path::Path, sync::Arc, time::Duration};

use harness::{
    Branch, Error, Result,
    blocking::blocking,
    core::{
        Holder, Run, RunId, Task, Timestamp, WorkerId,
        check::{Found, Verdict},
        run::RunLimits,
    },
    shell::{Ran, Script},
    workspace::{Base, Workspace},
};

use super::{HandoffPlace, OwnPlace, Tools, fence::Watch, tools::until_cancelled};

/// The time limit of the init script and of a cleanup.
const SCRIPT_SECONDS: u64 = 600;

/// The place of one worker, with everything that is its own.
#[derive(Clone)]
pub struct Bench {
    /// The tools that it shares with the other workers of the run.
    pub tools: Tools,
    /// The worker; `None` in the run of an objective, which claims nothing.
    pub worker: Option<WorkerId>,
    /// The work tree, under version control.
    pub workspace: Arc<dyn Workspace>,
    /// The place where its agents leave notes for their next context.
    pub handoff: HandoffPlace,
    /// What the worker shares with others, each of which has a tree of its own; `None` for the only
    /// worker, in the main tree.
    pub own: Option<OwnPlace>,
}

impl Bench {
    /// Returns the bench in the main work tree.
    pub fn in_main_tree(tools: Tools, workspace: Arc<dyn Workspace>) -> Self {
        let handoff = HandoffPlace { folder: tools.root.clone(), root: tools.root.clone() };
        Self { tools, worker: None, workspace, handoff, own: None }
    }

    /// Returns the same bench for this worker.
    #[must_use]
    pub fn of_worker(mut self, worker: WorkerId) -> Self {
        self.worker = Some(worker);
        self
    }

    /// Returns the bench of this worker, one of several.
    #[must_use]
    pub(super) fn of_several(mut self, own: OwnPlace) -> Self {
        self.worker = Some(own.worker.clone());
        self.own = Some(own);
        self
    }

    /// Returns the same bench for an attempt: nothing is waited for any more when the watch over its claim
    /// has stopped the agent.
    #[must_use]
    pub(super) fn watched_by(mut self, watch: &Watch) -> Self {
        self.tools.hold = watch.hold(&self.tools.hold);
        self.tools.ports.commit = Arc::new(self.tools.hold.clone());
        self
    }

    /// Returns the same bench in the tree of its worker, if that has one and it is open.
    #[must_use]
    pub(super) fn in_own_tree(mut self) -> Self {
        if let Some(tree) = self.own.as_ref().and_then(OwnPlace::tree) {
            self.handoff.folder = tree.top_level().to_owned();
            self.workspace = tree;
        }
        self
    }

    /// Runs the init script: in the tree of one of several workers, or in the state root. Returns
    /// `None` if there is no script.
    pub(super) async fn prepare<A>(&self, branch: &Branch<A>) -> Result<Option<Verdict>> {
        if !self.tools.has_init_script()? {
            return Ok(None);
        }
        // An executable script runs by its own first line, any other one by sh.
        let command = "s=$HARNESS_STATE_ROOT/harness-init.sh; \
                       if [ -x \"$s\" ]; then \"$s\"; else sh \"$s\"; fi";
        let directory = match &self.own {
            Some(_) => self.workspace.top_level(),
            None => &self.tools.root,
        };
        let script = self.script(command, directory, SCRIPT_SECONDS, None).await;
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
        let script = self.script(command, directory, SCRIPT_SECONDS, Some((task, holder))).await;
        self.run(branch, script).await
    }

    async fn script(
        &self,
        command: &str,
        directory: &Path,
        seconds: u64,
        about: Option<(&Task, &Holder)>,
    ) -> Script {
        Script {
            command: command.to_owned(),
            directory: directory.to_owned(),
            timeout: Duration::from_secs(seconds.max(1)),
            environment: self.tools.variables(about, None).await,
        }
    }

    async fn run<A>(&self, branch: &Branch<A>, script: Script) -> Result<Ran> {
        let shell = Arc::clone(&self.tools.shell);
        self.workspace.disturbed();
        until_cancelled(branch, move |cancel| Ok(shell.run_until(&script, cancel)?)).await
    }

    /// Queries git on a thread that may block.
    pub(super) async fn git<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Workspace) -> T + Send + 'static,
    ) -> Result<T> {
        let workspace = Arc::clone(&self.workspace);
        let asked = blocking(move || ask(&*workspace)).await;
        asked.map_err(Error::other)
    }

    /// Returns the tree that a claim recorded at its start; `None` if it recorded none.
    pub(super) fn base(&self, task: &Task) -> Option<Base> {
        Base::of_claim(task, self.workspace.top_level())
    }

    /// Returns the row of a new attempt of this worker.
    pub(super) fn attempt_row(&self, parent: &Run, id: RunId, task: &Task, now: Timestamp) -> Run {
        let max_iterations = parent.limits.max_iterations;
        Run {
            task: Some(task.id.clone()),
            epoch: task.epoch,
            agent: parent.agent.clone(),
            agent_command: parent.agent_command.clone(),
            workspace: match &self.own {
                Some(_) => self.workspace.top_level().display().to_string(),
                None => parent.workspace.clone(),
            },
            completion_promise: parent.completion_promise.clone(),
            limits: RunLimits { max_iterations, ..Default::default() },
            parent: Some(parent.id.clone()),
            ..Run::queued(id, now)
        }
    }
}

/// Returns the name for the files of a loop.
pub(super) fn file_name(run: &Run) -> String {
    match (&run.task, run.epoch) {
        (Some(task), Some(epoch)) => format!("{task}.{epoch}"),
        _ => run.id.to_string(),
    }
}
