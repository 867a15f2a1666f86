//! Performs what work is judged by: checks, what it touched, the receipt. A run, the daemon and a
//! client without a host share it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use harness::{
    Branch, Error, Result,
    check::{Check, Checked},
    core::{
        Command, CommitId, Holder, Receipt, Task, TreeId,
        check::Verdict,
        command::Note,
        flag,
        machine::{
            attempt,
            judge::{Around, Effect, Ended, JudgedTree, Rules, Setting},
        },
        protect::Protected,
    },
    process::Redactor,
    shell::Shell,
    workspace::{Base, Candidate, Sight, Workspace, WorkspaceError},
};

use super::{Tools, failure, tools::until_cancelled};

/// How much of a failing check's output goes into the next prompt.
const FAILURE_BYTES: usize = 8 * 1024;

/// How long a commit waits for somebody else's git, in growing pauses.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(250);

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

    /// The files that differ from the claim, after git's settings are set back. Files that a glob
    /// protects are read.
    pub async fn touched(&self, task: &Task, protected: &Protected) -> Result<Ended> {
        self.touched_as(task, protected, Sight::Anew).await
    }

    async fn touched_as(&self, task: &Task, protected: &Protected, sight: Sight) -> Result<Ended> {
        let (task, protected) = (task.clone(), protected.clone());
        self.blocking(move |bench| {
            // Without a base nothing can be compared, and without a repository neither.
            let Some(base) = bench.site.base(&task)? else {
                return Ok(Ended::Touched { files: Vec::new(), settings: Vec::new() });
            };
            let git = bench.site.workspace()?;
            let settings = restore_settings(&*git, &task)?;
            let mut files = git.touched(&base, sight)?;
            if !protected.globs().is_empty() {
                let among = |path: &str| !protected.among(&[path.to_owned()]).is_empty();
                files.extend(git.differing(&base, &among)?);
                files.sort();
                files.dedup();
            }
            Ok(Ended::Touched { files, settings })
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
    pub fn checked(&self, check: &Check, checked: Checked, around: Around) -> Ended {
        // As a whole: a secret that was cut in two would not be recognised any more.
        let shown = self.redactor.bytes(&checked.ran.tail);
        let output = String::from_utf8_lossy(&shown).into_owned();
        let record = Box::new(checked.record(check));
        let around = Box::new(around);
        Ended::Checked { record, output, verdict: checked.verdict, around }
    }

    /// Makes the receipt durable, with the tree of its commit.
    pub async fn record(&self, mut receipt: Receipt) -> Result<Ended> {
        self.blocking(move |bench| {
            if let Some(commit) = receipt.commit.as_ref().filter(|_| receipt.tree.is_none()) {
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
            Effect::Touched => {
                let protected = &self.tools.judging.rules.protected;
                self.bench.touched_as(&self.task, protected, Sight::Last).await
            }
            Effect::Check { commit } => self.check(branch, commit).await,
            Effect::Prepare => {
                // Whether it helped is what the check says next.
                self.tools.prepare(branch).await?;
                Ok(Ended::Prepared)
            }
            Effect::Keep { tree } => self.keep(tree).await,
            Effect::PutBack { tree } => self.put_back(tree).await,
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
        self.tools.workspace.disturbed();
        let checked = self.bench.check(branch, &check, base).await?;
        Ok(attempt::Ended::Based(checked.verdict))
    }

    async fn check<A>(&self, branch: &Branch<A>, commit: Option<CommitId>) -> Result<Ended> {
        let check = self.command().await?;
        let base = self.tools.base(&self.task).filter(|_| commit.is_none());
        let before = match &base {
            Some(base) => match self.before(base).await? {
                Ok(before) => Some(before),
                Err(why) => return Ok(Ended::NotKept { why }),
            },
            None => None,
        };
        self.tools.workspace.disturbed();
        let checked = self.bench.check(branch, &check, commit).await?;
        if matches!(checked.verdict, Verdict::Red { .. } | Verdict::TimedOut) {
            let output = self.tools.output(&checked.ran, FAILURE_BYTES);
            let (root, task) = (self.tools.root.clone(), self.task.id.clone());
            self.tools.blocking(move || Ok(failure::keep(&root, &task, &output)?)).await?;
        }
        let around = match (before, base) {
            (Some((mut settings, candidate)), Some(base)) if checked.verdict == Verdict::Passed => {
                let (tree, later) = self.after(&base, candidate).await?;
                settings.extend(later);
                Around { settings, tree: Some(tree) }
            }
            (before, _) => {
                let settings = before.map(|(settings, _)| settings).unwrap_or_default();
                Around { settings, tree: None }
            }
        };
        Ok(self.bench.checked(&check, checked, around))
    }

    /// What would be committed, seen with the settings of the claim.
    async fn before(&self, base: &Base) -> Result<Result<(Vec<Setting>, Candidate), String>> {
        let (task, base) = (self.task.clone(), base.clone());
        let seen = self.tools.git(move |git| {
            let settings = restore_settings(git, &task)?;
            Ok::<_, WorkspaceError>((settings, git.candidate(&base, Sight::Last)?))
        });
        match seen.await? {
            Ok(seen) => Ok(Ok(seen)),
            Err(why) if is_about_the_work(&why) => Ok(Err(why.to_string())),
            Err(other) => Err(other.into()),
        }
    }

    async fn after(&self, base: &Base, before: Candidate) -> Result<(JudgedTree, Vec<Setting>)> {
        let (task, base) = (self.task.clone(), base.clone());
        let seen = self.tools.git(move |git| {
            let settings = restore_settings(git, &task)?;
            let settled = git.settle(&base, &before.tree)?;
            let tree = JudgedTree {
                before: before.tree,
                after: settled.tree,
                changed: settled.changed,
                moved: settled.moved,
                hidden: before.hidden,
            };
            Ok::<_, WorkspaceError>((tree, settings))
        });
        Ok(seen.await??)
    }

    async fn command(&self) -> Result<Check> {
        let (runs, task) = (Arc::clone(&self.tools.looping.runs), self.task.id.clone());
        let epoch = self.task.epoch.unwrap_or_default();
        let row = self.tools.blocking(move || Ok(runs.attempt(&task, epoch)?)).await?;
        let iteration = row.map_or(0, |row| row.iteration_count);
        let about = Some((&self.task, &self.holder));
        Ok(Check::of(&self.task, self.tools.variables(about, Some(iteration))))
    }

    async fn keep(&self, tree: Option<TreeId>) -> Result<Ended> {
        let Some(base) = self.tools.base(&self.task) else {
            return Ok(Ended::NotKept { why: "The claim recorded no base commit".into() });
        };
        let message = format!("{}: {}", self.task.id, self.task.title);
        let (tree, hidden, settings) = match tree {
            Some(tree) => (tree, Vec::new(), Vec::new()),
            None => {
                let (base, task) = (base.clone(), self.task.clone());
                let looked = self.tools.git(move |git| {
                    let settings = restore_settings(git, &task)?;
                    let candidate = git.candidate(&base, Sight::Last)?;
                    Ok::<_, WorkspaceError>((candidate.tree, candidate.hidden, settings))
                });
                match looked.await? {
                    Ok(found) => found,
                    Err(why) if is_about_the_work(&why) => {
                        return Ok(Ended::NotKept { why: why.to_string() });
                    }
                    Err(other) => return Err(other.into()),
                }
            }
        };
        let mut pause = FIRST_PAUSE;
        let mut waited = Duration::ZERO;
        let kept = loop {
            let (base, tree, message) = (base.clone(), tree.clone(), message.clone());
            let kept = self.tools.git(move |git| git.commit_tree(&base, &tree, &message));
            match kept.await? {
                // Somebody else's git is at work. The lease is renewed while we wait for it.
                Err(why @ WorkspaceError::Locked { .. }) if waited < LOCK_PATIENCE => {
                    if waited.is_zero() {
                        let message = format!("{why}: the commit waits for it");
                        let task = Some(self.task.id.clone());
                        self.tools.commit(Command::Note(Note::Warning { task, message })).await?;
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
            Err(why @ WorkspaceError::Locked { .. }) => Ok(Ended::Blocked { why: why.to_string() }),
            Err(why) if is_about_the_work(&why) => Ok(Ended::NotKept { why: why.to_string() }),
            Err(other) => Err(other.into()),
        }
    }

    async fn put_back(&self, tree: TreeId) -> Result<Ended> {
        let Some(base) = self.tools.base(&self.task) else {
            return Ok(Ended::PutBack(Vec::new()));
        };
        Ok(Ended::PutBack(self.tools.git(move |git| git.put_back(&base, &tree)).await??))
    }

    /// On no branch a completed commit would be lost with the next checkout.
    async fn keep_reachable(&self, commit: Option<&CommitId>) -> Result<()> {
        let detached = self.tools.base(&self.task).is_some_and(|base| base.branch.is_none());
        let (Some(commit), true) = (commit.cloned(), detached) else { return Ok(()) };
        let task = self.task.id.clone();
        let reference = self.tools.git(move |git| git.keep_reachable(&task, &commit)).await??;
        let message = format!("HEAD is on no branch: {reference} keeps the commit");
        let note = Note::Warning { task: Some(self.task.id.clone()), message };
        self.tools.commit(Command::Note(note)).await
    }

    async fn record(&self, receipt: Receipt) -> Result<Ended> {
        self.keep_reachable(receipt.commit.as_ref()).await?;
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

/// The commits or files that are there cannot be the work of this attempt.
fn is_about_the_work(why: &WorkspaceError) -> bool {
    matches!(why, WorkspaceError::NotDescendant { .. } | WorkspaceError::Unsafe { .. })
}

/// Sets git's settings back to what they were at the claim, and tells what was changed.
pub(super) fn restore_settings(
    git: &dyn Workspace,
    task: &Task,
) -> Result<Vec<Setting>, WorkspaceError> {
    let Some(epoch) = task.epoch else { return Ok(Vec::new()) };
    let changes = git.restore_settings(&task.id, epoch)?;
    let settings = changes.into_iter().map(|change| Setting {
        message: change.message(),
        name: format!("git: {}", change.what),
        sight: change.sight,
    });
    Ok(settings.collect())
}
