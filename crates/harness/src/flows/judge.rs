//! Performs the steps by which an attempt of a run is judged: checks, the changed files, the
//! commit, the receipt.

use std::{sync::Arc, time::Duration};

use harness::{
    Branch, Error, Result,
    check::Check,
    core::{
        Command, CommitId, Holder, Receipt, Task, TreeId,
        check::Verdict,
        command::Note,
        flag,
        machine::{
            attempt,
            judge::{Around, Before, Effect, Ended},
        },
        protect::Protected,
    },
    store::Runs,
    workspace::{WorkspaceError, with_trailer},
};

pub use super::court::{Court, Judging, Reach, ReadReceipt, Record};
use super::{Bench, court::is_about_the_work, failure, site::Here};

/// The amount of a failing check's output that goes into the next prompt.
const FAILURE_BYTES: usize = 8 * 1024;

/// The time that a commit waits for another git process, in growing pauses.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The judge of one attempt of a run.
#[derive(Clone)]
pub(super) struct Judge {
    bench: Bench,
    task: Task,
    holder: Holder,
    court: Court,
    protected: Protected,
}

impl Judge {
    /// Creates the judge. `protected` is the state at the start of the attempt.
    pub(super) fn new(bench: Bench, task: Task, holder: Holder, protected: Protected) -> Self {
        let court = Court {
            site: Arc::new(Here(Arc::clone(&bench.workspace))),
            root: bench.tools.root.clone(),
            shell: Arc::clone(&bench.tools.shell),
            redactor: bench.tools.redactor.clone(),
            record: Arc::clone(&bench.tools.judging.record),
            reach: Reach::Everything,
        };
        Self { bench, task, holder, court, protected }
    }

    pub(super) async fn perform<A>(&self, branch: &Branch<A>, effect: Effect) -> Result<Ended> {
        match effect {
            Effect::Head => self.court.head().await,
            Effect::Touched => self.court.touched(&self.task, &self.protected).await,
            Effect::Check { commit } => self.check(branch, commit).await,
            Effect::Prepare => {
                // The check that follows shows whether it helped.
                self.bench.prepare(branch).await?;
                Ok(Ended::Prepared)
            }
            Effect::Keep { tree } => self.keep(tree).await,
            Effect::Settle { before } => self.court.settle(&self.task, before).await,
            Effect::SetBack => self.court.set_back(&self.task).await,
            Effect::PutBack { tree } => self.put_back(tree).await,
            Effect::Record(receipt) => self.record(*receipt).await,
            Effect::Look => Err(Error::message("an attempt of a run is not completed by force")),
        }
    }

    /// Runs the check as the work will be judged. If that is in a clean checkout, it is one of the
    /// commit that the claim started from.
    pub(super) async fn baseline<A>(&self, branch: &Branch<A>) -> Result<attempt::Ended> {
        let clean = self.bench.tools.judging.rules.clone().of(&self.task).clean;
        let base = self.task.started_at_commit.clone().filter(|_| clean);
        let check = self.command().await?;
        self.bench.workspace.disturbed();
        let checked = self.court.check(branch, &check, base).await?;
        Ok(attempt::Ended::Based(checked.verdict))
    }

    async fn check<A>(&self, branch: &Branch<A>, commit: Option<CommitId>) -> Result<Ended> {
        let check = self.command().await?;
        let around = match self.court.before(&self.task, commit.as_ref()).await? {
            Ok(around) => around,
            Err(ended) => return Ok(ended),
        };
        self.bench.workspace.disturbed();
        let checked = self.court.check(branch, &check, commit).await?;
        if matches!(checked.verdict, Verdict::Red { .. } | Verdict::TimedOut) {
            let output = self.bench.tools.output(&checked.ran, FAILURE_BYTES);
            let (root, task) = (self.bench.tools.root.clone(), self.task.id.clone());
            let epoch = self.task.epoch;
            let keep = move || Ok(failure::keep(&root, &task, epoch, &output)?);
            self.bench.tools.blocking(keep).await?;
        }
        Ok(self.court.checked(&check, checked, around))
    }

    async fn command(&self) -> Result<Check> {
        let (task, epoch) = (self.task.id.clone(), self.task.epoch.unwrap_or_default());
        let find = move |runs: &dyn Runs| Ok(runs.attempt(&task, epoch)?);
        let row = self.bench.tools.with_runs(find).await?;
        let iteration = row.map_or(0, |row| row.iteration_count);
        let about = Some((&self.task, &self.holder));
        Ok(Check::of(&self.task, self.bench.tools.variables(about, Some(iteration)).await))
    }

    async fn keep(&self, tree: Option<TreeId>) -> Result<Ended> {
        let Some(base) = self.bench.base(&self.task) else {
            return Ok(no_base());
        };
        let message = self.message();
        let (tree, hidden, settings) = match tree {
            Some(tree) => (tree, Vec::new(), Vec::new()),
            None => match self.court.before(&self.task, None).await? {
                Ok(Around { before: Some(Before { tree, hidden }), settings }) => {
                    (tree, hidden, settings)
                }
                Ok(Around { before: None, .. }) => return Ok(no_base()),
                Err(ended) => return Ok(ended),
            },
        };
        let mut pause = FIRST_PAUSE;
        let mut waited = Duration::ZERO;
        let kept = loop {
            let (base, tree, message) = (base.clone(), tree.clone(), message.clone());
            let kept = self.bench.git(move |git| git.commit_tree(&base, &tree, &message));
            match kept.await? {
                // Another git process is at work. The lease is renewed while the commit waits for
                // it.
                Err(why @ WorkspaceError::Locked { .. }) if waited < LOCK_PATIENCE => {
                    if waited.is_zero() {
                        let message = format!("{why}: the commit waits for it");
                        let task = Some(self.task.id.clone());
                        self.bench
                            .tools
                            .commit(Command::Note(Note::Warning { task, message }))
                            .await?;
                    }
                    tokio::time::sleep(pause).await;
                    waited += pause;
                    pause = (pause * 2).min(LOCK_PATIENCE - waited.min(LOCK_PATIENCE));
                }
                kept => break kept,
            }
        };
        match kept {
            Ok(commit) => Ok(Ended::Kept { commit, hidden, settings }),
            Err(WorkspaceError::HeadMoved { .. }) => Ok(Ended::Moved),
            Err(why @ (WorkspaceError::Locked { .. } | WorkspaceError::NotSigned { .. })) => {
                Ok(Ended::Blocked { why: why.to_string() })
            }
            Err(why) if is_about_the_work(&why) => Ok(Ended::NotKept { why: why.to_string() }),
            Err(other) => Err(other.into()),
        }
    }

    /// Returns the message of the commit. A result that lands carries the trailer from the beginning:
    /// if nothing else landed meanwhile, the commit need not be made again.
    fn message(&self) -> String {
        let message = format!("{}: {}", self.task.id, self.task.title);
        match self.bench.own {
            Some(_) => with_trailer(&message, &self.task.id, self.task.epoch.unwrap_or_default()),
            None => message,
        }
    }

    async fn put_back(&self, tree: TreeId) -> Result<Ended> {
        let Some(base) = self.bench.base(&self.task) else {
            return Ok(Ended::PutBack(Vec::new()));
        };
        Ok(Ended::PutBack(self.bench.git(move |git| git.put_back(&base, &tree)).await??))
    }

    /// Keeps a commit reachable. Without a branch, the next checkout would lose a completed commit.
    async fn keep_reachable(&self, commit: Option<&CommitId>) -> Result<()> {
        let detached = self.bench.base(&self.task).is_some_and(|base| base.branch.is_none());
        let (Some(commit), true) = (commit.cloned(), detached) else { return Ok(()) };
        let task = self.task.id.clone();
        let reference = self.bench.git(move |git| git.keep_reachable(&task, &commit)).await??;
        let message = format!("HEAD is on no branch: {reference} keeps the commit");
        let note = Note::Warning { task: Some(self.task.id.clone()), message };
        self.bench.tools.commit(Command::Note(note)).await
    }

    async fn record(&self, receipt: Receipt) -> Result<Ended> {
        self.keep_reachable(receipt.commit.as_ref()).await?;
        let (task, epoch) = (self.task.id.clone(), self.task.epoch.unwrap_or_default());
        let find = move |runs: &dyn Runs| Ok(runs.attempt(&task, epoch)?);
        let run = self.bench.tools.with_runs(find).await?;
        // A ledger that cannot be read is reported when the completion is committed.
        let raised = self.bench.tools.read_ledger().await.ok();
        let raised = raised.and_then(|ledger| Some(ledger.task(&self.task.id)?.flags.clone()));
        let receipt = Receipt {
            flags: flag::together(receipt.flags, raised.unwrap_or_default()),
            agent: self.bench.tools.judging.agent.clone(),
            iterations: run.as_ref().map(|run| run.iteration_count + 1),
            tokens: run.as_ref().map(|run| run.usage.tokens()).filter(|tokens| *tokens > 0),
            cost_usd: run.as_ref().and_then(|run| run.usage.cost_usd),
            ..receipt
        };
        self.court.record(receipt).await
    }
}

fn no_base() -> Ended {
    Ended::NotKept { why: "The claim recorded no base commit".into() }
}
