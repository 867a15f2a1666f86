//! Performs what an attempt is judged by: checks, what it touched, the receipt.

use std::sync::{Arc, Mutex, PoisonError};

use harness::{
    Branch, Error, Result,
    check::{Check, Checked},
    core::{
        CommitId, Holder, Receipt, Task,
        check::{Baseline, Verdict},
        machine::attempt::{Ended, Rules},
        receipt::{self, CheckRecord},
    },
};

use super::{Tools, failure};

/// How much of the last line of a check's output is told.
const LAST_LINE: usize = 200;
/// How much of it the next attempt is told.
const FAILURE_BYTES: usize = 8 * 1024;

/// Makes a receipt durable, or says why it is not.
pub type Record = dyn Fn(&Receipt) -> Result<()> + Send + Sync;

/// How work is judged, and where that is recorded.
#[derive(Clone)]
pub struct Judging {
    /// For the machine.
    pub rules: Rules,
    /// The name of the agent that works, for the receipt.
    pub agent: Option<String>,
    /// Called before the completion is committed.
    pub record: Arc<super::Record>,
}

/// The judge of one attempt. Clones share what the last check said.
#[derive(Clone)]
pub(super) struct Judge {
    tools: Tools,
    task: Task,
    holder: Holder,
    last: Arc<Mutex<Option<CheckRecord>>>,
}

impl Judge {
    pub(super) fn new(tools: Tools, task: Task, holder: Holder) -> Self {
        Self { tools, task, holder, last: Arc::default() }
    }

    /// In the work tree, or in a clean checkout of a commit.
    pub(super) async fn check<A>(
        &self,
        branch: &Branch<A>,
        commit: Option<CommitId>,
    ) -> Result<Ended> {
        let (check, checked) = self.run(branch, commit).await?;
        if matches!(checked.verdict, Verdict::Red { .. } | Verdict::TimedOut) {
            let output = self.tools.output(&checked.ran, FAILURE_BYTES);
            let (root, task) = (self.tools.root.clone(), self.task.id.clone());
            self.tools.blocking(move || Ok(failure::keep(&root, &task, &output)?)).await?;
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(checked.record(&check));
        let output = self.tools.output(&checked.ran, checked.ran.tail.len());
        Ok(Ended::Checked { last_line: last_line(&output), verdict: checked.verdict })
    }

    /// As the work will be judged: where that is a clean checkout, in one of what the claim started
    /// from.
    pub(super) async fn baseline<A>(&self, branch: &Branch<A>) -> Result<Ended> {
        let clean = self.task.validation.clean.unwrap_or(self.tools.judging.rules.clean);
        let base = self.task.started_at_commit.clone().filter(|_| clean);
        let (_, checked) = self.run(branch, base).await?;
        Ok(Ended::Based(checked.verdict))
    }

    async fn run<A>(
        &self,
        branch: &Branch<A>,
        commit: Option<CommitId>,
    ) -> Result<(Check, Checked)> {
        let (runs, task) = (Arc::clone(&self.tools.looping.runs), self.task.id.clone());
        let epoch = self.task.epoch.unwrap_or_default();
        let row = self.tools.blocking(move || Ok(runs.attempt(&task, epoch)?)).await?;
        let iteration = row.map_or(0, |row| row.iteration_count);
        let check = Check {
            command: self.task.check().unwrap_or_default().to_owned(),
            timeout_seconds: self.task.validation.timeout_seconds,
            environment: self.tools.variables(Some((&self.task, &self.holder)), Some(iteration)),
        };
        let (tools, ran) = (self.tools.clone(), check.clone());
        let checked = self.tools.until_cancelled(branch, move |cancel| {
            let (shell, workspace) = (&*tools.shell, &*tools.workspace);
            match commit {
                None => Ok(ran.run_in(shell, workspace.top_level(), cancel)?),
                Some(at) => Ok(ran.run_clean(shell, workspace, &tools.root, &at, cancel)?),
            }
        });
        Ok((check, checked.await?))
    }

    pub(super) async fn touched(&self) -> Result<Ended> {
        let Some(base) = self.tools.base(&self.task) else {
            return Ok(Ended::Touched(Vec::new()));
        };
        Ok(Ended::Touched(self.tools.git(move |git| git.touched(&base)).await??))
    }

    pub(super) async fn record(
        &self,
        commit: CommitId,
        baseline: Option<Baseline>,
        protected: Vec<String>,
    ) -> Result<Ended> {
        let at = commit.clone();
        let tree = self.tools.git(move |git| git.tree_of(&at)).await??;
        let (runs, task) = (Arc::clone(&self.tools.looping.runs), self.task.id.clone());
        let epoch = self.task.epoch.unwrap_or_default();
        let run = self.tools.blocking(move || Ok(runs.attempt(&task, epoch)?)).await?;
        let receipt = Receipt {
            version: receipt::VERSION,
            task: self.task.id.clone(),
            epoch: self.task.epoch.unwrap_or_default(),
            worker: self.holder.worker.clone(),
            attempt: self.task.attempts + 1,
            base: self.task.started_at_commit.clone(),
            commit: Some(commit),
            tree: Some(tree),
            check: self.last.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            baseline,
            protected,
            flags: self.task.flags.clone(),
            agent: self.tools.judging.agent.clone(),
            iterations: run.as_ref().map(|run| run.iteration_count + 1),
            tokens: run.as_ref().map(|run| run.usage.tokens()).filter(|tokens| *tokens > 0),
            cost_usd: run.as_ref().and_then(|run| run.usage.cost_usd),
            time: self.tools.ports.clock.now(),
        };
        let record = Arc::clone(&self.tools.judging.record);
        let recorded = tokio::task::spawn_blocking(move || record(&receipt)).await;
        recorded.map_err(Error::other)??;
        Ok(Ended::Recorded)
    }
}

fn last_line(output: &str) -> Option<String> {
    let line = output.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(LAST_LINE).collect())
}
