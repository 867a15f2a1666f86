//! Performs what work is judged by: checks, what it touched, the receipt. A run, the daemon and a
//! client without a host share it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use harness::{
    Branch, Error, Result,
    check::{Check, Checked},
    core::{
        CommitId, Holder, Receipt, Task, TreeId,
        check::Verdict,
        flag,
        machine::{
            attempt,
            judge::{Effect, Ended, Rules},
        },
    },
    process::Redactor,
    shell::Shell,
    workspace::{Base, Workspace, WorkspaceError},
};

use super::{Tools, failure, tools::until_cancelled};

/// How much of a failing check the next attempt is told.
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

/// Where the judged work is. Blocking.
pub trait Site: Send + Sync {
    /// Where the check runs.
    fn directory(&self) -> &Path;
    /// `None` without a repository or a commit.
    fn head(&self) -> Option<CommitId>;
    /// The repository around the work.
    fn workspace(&self) -> Result<Arc<dyn Workspace>, WorkspaceError>;
    /// What the claim started from; `None` where it recorded nothing.
    fn base(&self, task: &Task) -> Result<Option<Base>, WorkspaceError>;
    /// The tree of a commit, where there is one.
    fn tree_of(&self, commit: &CommitId) -> Result<Option<TreeId>, WorkspaceError>;
}

/// The work tree of a run.
struct Here(Arc<dyn Workspace>);

impl Site for Here {
    fn directory(&self) -> &Path {
        self.0.top_level()
    }

    fn head(&self) -> Option<CommitId> {
        self.0.head().ok()
    }

    fn workspace(&self) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        Ok(Arc::clone(&self.0))
    }

    fn base(&self, task: &Task) -> Result<Option<Base>, WorkspaceError> {
        Ok(Base::of_claim(task, self.0.top_level()))
    }

    fn tree_of(&self, commit: &CommitId) -> Result<Option<TreeId>, WorkspaceError> {
        self.0.tree_of(commit).map(Some)
    }
}

/// What judging works with.
#[derive(Clone)]
pub struct Bench {
    /// Where the work is.
    pub site: Arc<dyn Site>,
    /// The state root.
    pub root: PathBuf,
    /// Runs the check.
    pub shell: Arc<dyn Shell>,
    /// Hides secrets from what people are shown.
    pub redactor: Redactor,
    /// Called before the completion is committed.
    pub record: Arc<Record>,
}

impl Bench {
    /// HEAD of the work tree.
    pub async fn head(&self) -> Result<Ended> {
        self.blocking(|bench| Ok(Ended::Head(bench.site.head()))).await
    }

    /// The files that differ from the claim.
    pub async fn touched(&self, task: &Task) -> Result<Ended> {
        let task = task.clone();
        self.blocking(move |bench| {
            // Without a base nothing can be compared, and without a repository neither.
            let Some(base) = bench.site.base(&task)? else { return Ok(Ended::Touched(Vec::new())) };
            Ok(Ended::Touched(bench.site.workspace()?.touched(&base)?))
        })
        .await
    }

    /// In the work tree, or in a clean checkout of a commit.
    pub async fn check<A>(
        &self,
        branch: &Branch<A>,
        check: &Check,
        commit: Option<CommitId>,
    ) -> Result<Checked> {
        let (bench, check) = (self.clone(), check.clone());
        until_cancelled(branch, move |cancel| {
            let (shell, site) = (&*bench.shell, &bench.site);
            match commit {
                None => Ok(check.run_in(shell, site.directory(), cancel)?),
                Some(at) => {
                    let workspace = site.workspace()?;
                    Ok(check.run_clean(shell, &*workspace, &bench.root, &at, cancel)?)
                }
            }
        })
        .await
    }

    /// What a check said, for the machine.
    pub fn checked(&self, check: &Check, checked: Checked) -> Ended {
        // As a whole: a secret that was cut in two would not be recognised any more.
        let shown = self.redactor.bytes(&checked.ran.tail);
        let output = String::from_utf8_lossy(&shown).into_owned();
        let record = Box::new(checked.record(check));
        Ended::Checked { record, output, verdict: checked.verdict }
    }

    /// Makes the receipt durable, with the tree of its commit.
    pub async fn record(&self, mut receipt: Receipt) -> Result<Ended> {
        self.blocking(move |bench| {
            if let Some(commit) = &receipt.commit {
                receipt.tree = bench.site.tree_of(commit)?;
            }
            (bench.record)(&receipt)?;
            Ok(Ended::Recorded)
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let bench = self.clone();
        tokio::task::spawn_blocking(move || act(&bench)).await.map_err(Error::other)?
    }
}

/// The judge of one attempt of a run.
#[derive(Clone)]
pub(super) struct Judge {
    tools: Tools,
    task: Task,
    holder: Holder,
    bench: Bench,
}

impl Judge {
    pub(super) fn new(tools: Tools, task: Task, holder: Holder) -> Self {
        let bench = Bench {
            site: Arc::new(Here(Arc::clone(&tools.workspace))),
            root: tools.root.clone(),
            shell: Arc::clone(&tools.shell),
            redactor: tools.redactor.clone(),
            record: Arc::clone(&tools.judging.record),
        };
        Self { tools, task, holder, bench }
    }

    pub(super) async fn perform<A>(&self, branch: &Branch<A>, effect: Effect) -> Result<Ended> {
        match effect {
            Effect::Head => self.bench.head().await,
            Effect::Touched => self.bench.touched(&self.task).await,
            Effect::Check { commit } => self.check(branch, commit).await,
            Effect::Prepare => {
                // Whether it helped is what the check says next.
                self.tools.prepare(branch).await?;
                Ok(Ended::Prepared)
            }
            Effect::Keep => self.keep().await,
            Effect::Record(receipt) => self.record(*receipt).await,
            Effect::Look => Err(Error::message("an attempt of a run is not completed by force")),
        }
    }

    /// As the work will be judged: where that is a clean checkout, in one of what the claim started
    /// from.
    pub(super) async fn baseline<A>(&self, branch: &Branch<A>) -> Result<attempt::Ended> {
        let clean = self.tools.judging.rules.clone().of(&self.task).clean;
        let base = self.task.started_at_commit.clone().filter(|_| clean);
        let check = self.command().await?;
        let checked = self.bench.check(branch, &check, base).await?;
        Ok(attempt::Ended::Based(checked.verdict))
    }

    async fn check<A>(&self, branch: &Branch<A>, commit: Option<CommitId>) -> Result<Ended> {
        let check = self.command().await?;
        let checked = self.bench.check(branch, &check, commit).await?;
        if matches!(checked.verdict, Verdict::Red { .. } | Verdict::TimedOut) {
            let output = self.tools.output(&checked.ran, FAILURE_BYTES);
            let (root, task) = (self.tools.root.clone(), self.task.id.clone());
            self.tools.blocking(move || Ok(failure::keep(&root, &task, &output)?)).await?;
        }
        Ok(self.bench.checked(&check, checked))
    }

    async fn command(&self) -> Result<Check> {
        let (runs, task) = (Arc::clone(&self.tools.looping.runs), self.task.id.clone());
        let epoch = self.task.epoch.unwrap_or_default();
        let row = self.tools.blocking(move || Ok(runs.attempt(&task, epoch)?)).await?;
        let iteration = row.map_or(0, |row| row.iteration_count);
        let about = Some((&self.task, &self.holder));
        Ok(Check::of(&self.task, self.tools.variables(about, Some(iteration))))
    }

    async fn keep(&self) -> Result<Ended> {
        let Some(base) = self.tools.base(&self.task) else {
            return Ok(Ended::NotKept { why: "The claim recorded no base commit".into() });
        };
        let message = format!("{}: {}", self.task.id, self.task.title);
        match self.tools.git(move |git| git.commit(&base, &message)).await? {
            Ok(commit) => Ok(Ended::Kept(commit)),
            Err(why @ (WorkspaceError::NotDescendant { .. } | WorkspaceError::Unsafe { .. })) => {
                Ok(Ended::NotKept { why: why.to_string() })
            }
            Err(other) => Err(other.into()),
        }
    }

    async fn record(&self, receipt: Receipt) -> Result<Ended> {
        let (runs, task) = (Arc::clone(&self.tools.looping.runs), self.task.id.clone());
        let epoch = self.task.epoch.unwrap_or_default();
        let run = self.tools.blocking(move || Ok(runs.attempt(&task, epoch)?)).await?;
        // A ledger that cannot be read is reported when the completion is committed.
        let raised = (self.tools.ledger)().ok();
        let raised = raised.and_then(|ledger| Some(ledger.task(&self.task.id)?.flags.clone()));
        let receipt = Receipt {
            flags: flag::together(receipt.flags, raised.unwrap_or_default()),
            agent: self.tools.judging.agent.clone(),
            iterations: run.as_ref().map(|run| run.iteration_count + 1),
            tokens: run.as_ref().map(|run| run.usage.tokens()).filter(|tokens| *tokens > 0),
            cost_usd: run.as_ref().and_then(|run| run.usage.cost_usd),
            ..receipt
        };
        self.bench.record(receipt).await
    }
}
