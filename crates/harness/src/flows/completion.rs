//! The completion of a task by a worker outside of a run. The daemon and a client without a host
//! judge it here, with the machine that judges the attempts of a run.

use std::{
    future::Future,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use harness::{
    Branch, Error, Hub, Ports, Result,
    blocking::blocking,
    check::Check,
    core::{
        Receipt, Refusal, Task, TaskId, TreeId, flag, lease,
        machine::judge::{Effect, Ended, Judge, JudgeEnd, NotDone, Request, Standing},
        protect::Protected,
        variables::Variables,
    },
    process::Redactor,
    shell::Shell,
    workspace::WorkspaceError,
};

use super::{
    Record, Site,
    judge::{Court, Reach},
};

/// The shortest interval of ticks, however short a lease is.
const SHORTEST_TICK: Duration = Duration::from_millis(300);

/// The services that a completion needs from its caller, with the caller's own errors.
pub trait Clerk: Sync {
    /// The error of the caller.
    type Error: From<NotDone> + From<Refusal> + From<Error>;

    /// Returns the task in its current state.
    fn standing(&self, task: &TaskId)
    -> impl Future<Output = Result<Standing, Self::Error>> + Send;
    /// Checks whether the check of this task may run on this machine. It is about to run.
    fn may_check(&self, task: &Task) -> Result<(), Self::Error>;
    /// Returns the work tree to judge: the one that the claim names, if it belongs to this
    /// repository.
    fn site(
        &self,
        claimed: Option<&Path>,
    ) -> impl Future<Output = Result<Arc<dyn Site>, Self::Error>> + Send;
}

/// The completion of one task.
pub struct Completion<'a, C> {
    /// The caller.
    pub clerk: &'a C,
    /// The ports through which decisions become durable. The interval of ticks follows from the
    /// lease.
    pub ports: Ports,
    /// The state root.
    pub root: PathBuf,
    /// Runs the check.
    pub shell: Arc<dyn Shell>,
    /// Removes secrets from text that people see.
    pub redactor: Redactor,
    /// Called before the completion is committed.
    pub record: Arc<Record>,
    /// An interrupt of this hub stops the check.
    pub hub: Hub,
}

impl<C: Clerk> Completion<'_, C> {
    /// Judges the work, and returns when the completion is durable. The hub is interrupted when
    /// `stop` is ready.
    pub async fn run(
        &self,
        request: Request,
        stop: impl Future<Output = ()>,
    ) -> Result<TaskId, C::Error> {
        let standing = self.clerk.standing(&request.holder.task).await?;
        self.run_from(standing, request, stop).await
    }

    /// Does the same for a caller that already knows the state of the task.
    pub async fn run_from(
        &self,
        standing: Standing,
        request: Request,
        stop: impl Future<Output = ()>,
    ) -> Result<TaskId, C::Error> {
        let id = request.holder.task.clone();
        let judge = Judge::of_client(standing.clone(), request.clone());
        let task = standing.task.clone().unwrap_or_else(|| Task::new(id.clone(), ""));
        if judge.runs_a_check() {
            self.clerk.may_check(&task)?;
        }
        let claimed = task
            .claim()
            .and_then(|claim| claim.worktree.as_ref())
            .map(Path::new)
            .filter(|_| judge.looks_at_work());
        let reach = if standing.shared { Reach::Nothing } else { Reach::Settings };
        let court = Court {
            site: self.clerk.site(claimed).await?,
            root: self.root.clone(),
            shell: Arc::clone(&self.shell),
            redactor: self.redactor.clone(),
            record: Arc::clone(&self.record),
            reach,
        };
        let variables = Variables::of_root(self.root.display()).session(standing.session);
        let check = Check::of(&task, variables.task(&task, &request.holder).list());
        let lease = task.timeout_seconds.unwrap_or(lease::CLIENT_LEASE_SECONDS).max(1);
        let tick = Duration::from_millis(lease.saturating_mul(1000) / 3).max(SHORTEST_TICK);
        let protected = request.rules.protected.clone().of_task(&task);
        let hub = self.hub.clone();
        let doing = Doing { clerk: self.clerk, hub, court, task, check, protected };
        match doing.drive(Ports { tick, ..self.ports.clone() }, judge, stop).await? {
            JudgeEnd::Completed { .. } | JudgeEnd::Green(_) => {
                doing.forget().await;
                Ok(id)
            }
            JudgeEnd::Found(finding) => Err(finding.for_worker(&id).into()),
            JudgeEnd::Refused(refusal) => Err(refusal.into()),
        }
    }
}

struct Doing<'a, C> {
    clerk: &'a C,
    hub: Hub,
    court: Court,
    task: Task,
    check: Check,
    protected: Protected,
}

impl<C: Clerk> Doing<'_, C> {
    async fn drive(
        &self,
        ports: Ports,
        judge: Judge,
        stop: impl Future<Output = ()>,
    ) -> Result<JudgeEnd> {
        let branch = Branch::alone((), self.hub.clone());
        let driving = branch.drive(&ports, judge, |branch, effect| self.perform(branch, effect));
        tokio::pin!(driving, stop);
        tokio::select! {
            biased;
            outcome = &mut driving => outcome,
            () = &mut stop => {
                self.hub.interrupt();
                driving.await
            }
        }
    }

    async fn perform(&self, branch: Branch<()>, effect: Effect) -> Result<Ended> {
        match effect {
            Effect::Head => self.court.head().await,
            Effect::Touched => self.court.touched(&self.task, &self.protected).await,
            Effect::Check { commit } => {
                let around = match self.court.before(&self.task, commit.as_ref()).await? {
                    Ok(around) => around,
                    Err(ended) => return Ok(ended),
                };
                let checked = self.court.check(&branch, &self.check, commit).await?;
                Ok(self.court.checked(&self.check, checked, around))
            }
            Effect::Settle { before } => self.court.settle(&self.task, before).await,
            Effect::SetBack => self.court.set_back(&self.task).await,
            Effect::Record(receipt) => self.record(*receipt).await,
            Effect::Look => match self.clerk.standing(&self.task.id).await {
                Ok(standing) => Ok(Ended::Looked(Box::new(standing))),
                Err(_) => Err(Error::message("the completed task could not be read again")),
            },
            Effect::Keep { tree } => self.keep(tree).await,
            Effect::Prepare | Effect::PutBack { .. } => {
                Err(Error::message("a client prepares by itself, and nothing is put back"))
            }
        }
    }
}

impl<C: Clerk> Doing<'_, C> {
    /// Commits the work of a client that requested it.
    async fn keep(&self, tree: Option<TreeId>) -> Result<Ended> {
        let (site, task) = (Arc::clone(&self.court.site), self.task.clone());
        let kept = blocking(move || {
            let message = format!("{}: {}", task.id, task.title);
            site.commit(&task, tree.as_ref(), &message)
        });
        Ok(match kept.await.map_err(Error::other)? {
            Ok(commit) => Ended::Kept { commit, hidden: Vec::new(), settings: Vec::new() },
            Err(WorkspaceError::HeadMoved { .. }) => Ended::Moved,
            Err(why) => Ended::Blocked { why: why.to_string() },
        })
    }

    /// Records the receipt with the flags that were raised while the work was judged.
    async fn record(&self, mut receipt: Receipt) -> Result<Ended> {
        let standing = self.clerk.standing(&self.task.id).await.ok();
        let raised = standing.and_then(|standing| standing.task).map(|task| task.flags);
        receipt.flags = flag::together(receipt.flags, raised.unwrap_or_default());
        self.court.record(receipt).await
    }

    /// Forgets the recorded settings. The claim has ended, so nothing is compared with them any
    /// more.
    async fn forget(&self) {
        let Some(epoch) = self.task.epoch.filter(|_| self.task.check().is_some()) else { return };
        let (site, task) = (Arc::clone(&self.court.site), self.task.clone());
        let forgotten = blocking(move || match site.base(&task)? {
            Some(_) => site.workspace()?.forget_settings(&task.id, epoch),
            None => Ok(()),
        });
        if let Ok(Err(why)) = forgotten.await {
            tracing::warn!(%why, "the settings of a completed claim were not removed");
        }
    }
}
