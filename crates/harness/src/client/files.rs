//! The operations of a client without a host: one transaction on the files, under their lock, or on
//! the database.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use harness_core::{
    Command, Reply,
    command::{
        AddCheckpoint, Attempts, Claim, ClaimChoice, Code, ConfigureSession, Edit, EditPhase, Fail,
        Import, Pause, Place, Release, Remove, RemovePhase, Renew, Resume, Retry,
    },
    lease::CLIENT_LEASE_SECONDS,
    plan::Plan,
    role::Author,
    task::Via,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Caller, Client, ClientError};
use crate::{
    clock::{Clock as _, SystemClock},
    project::{LedgerStore, Project},
    protocol::{
        Answer, BudgetRequest, ClaimedTask, ImportedPlan, PlanText, Refused, Request, ResetPlan,
        StateView, StatusView, TaskCheckpoint, TaskClaim, TaskFail,
    },
    store::{Created, Locking, Store as _, StoreError, redacted},
    trajectory,
    workspace::glance,
};
#[cfg(feature = "sqlite")]
use crate::{project::RunError, protocol::BudgetView};

/// The interval of looks at the files while a claim waits, because their changes send no notice.
const LOOK: Duration = Duration::from_secs(1);

fn checkpoint(of: TaskCheckpoint, lease_seconds: u64) -> Command {
    let TaskCheckpoint { holder, step, total, description } = of;
    let tree = None;
    Command::Checkpoint(AddCheckpoint { holder, step, total, description, tree, lease_seconds })
}

/// Returns the command for a plan.
pub(super) fn import(text: &PlanText, by: Option<Author>) -> Result<Import, Refused> {
    let bad = |why: String| Refused::new(Code::BadPlan, why);
    let plan = Plan::read(&text.content).map_err(|why| bad(why.to_string()))?;
    Ok(Import { plan, mode: text.mode, by })
}

impl<C: Caller> Client<C> {
    pub(super) fn by_files(&self, request: Request) -> Result<Answer, ClientError> {
        self.caller.permit(request.operation()?, request.holder())?;
        let lease_seconds = self.options.lease_seconds;
        let command = match request {
            Request::GetState => return self.state_by_files(),
            Request::Status { event_count } => return self.status_by_files(event_count),
            Request::TaskClaim(claim) => return self.claim_by_files(&claim),
            Request::TaskComplete(of) => return self.complete_by_files(of),
            Request::PlanImport(text) => return self.import_by_files(&text),
            Request::PlanReset => return self.reset_by_files(),
            Request::Ack => return self.acknowledge_by_files(),
            Request::Kick => return Ok(Answer::Woken { woken: self.forget_waits()? }),
            Request::Budget(of) => return self.budget_by_files(&of),
            Request::Pause => Command::Pause(Pause { by: self.caller.author() }),
            Request::Resume => Command::Resume(Resume { by: self.caller.author() }),
            Request::TaskAdd(mut add) => {
                add.fields = Edit { by: self.caller.author(), ..add.fields };
                Command::Add(add)
            }
            Request::TaskEdit(edit) => Command::Edit(Edit { by: self.caller.author(), ..edit }),
            Request::PhaseEdit(edit) => {
                Command::EditPhase(EditPhase { by: self.caller.author(), ..edit })
            }
            Request::PhaseRemove { name } => {
                Command::RemovePhase(RemovePhase { name, by: self.caller.author() })
            }
            Request::SessionConfigure(of) => {
                Command::ConfigureSession(ConfigureSession { by: self.caller.author(), ..of })
            }
            Request::TaskRemove { task_id } => Command::Remove(Remove { task: task_id }),
            Request::TaskRetry(of) => {
                let reason = of.reason.unwrap_or_else(|| "retried by hand".to_owned());
                Command::Retry(Retry { task: of.task_id, reason })
            }
            Request::TaskRelease(of) => {
                let reason = of.reason.unwrap_or_else(|| "released by hand".to_owned());
                Command::Release(Release { task: of.task_id, holder: None, reason })
            }
            Request::TaskCheckpoint(of) => checkpoint(of, lease_seconds),
            Request::TaskRenew(of) => {
                let renew = Renew::new(of.holder, lease_seconds);
                Command::Renew(renew.for_client(of.lease_seconds))
            }
            Request::TaskFail(TaskFail { holder, category, message }) => {
                let attempts = Attempts::One;
                Command::Fail(Fail { holder, category, message, attempts, rolled_back_to: None })
            }
            Request::Ping
            | Request::Ask(_)
            | Request::Questions
            | Request::Reply(_)
            | Request::Send(_)
            | Request::Abort { .. }
            | Request::Subscribe(_)
            | Request::May { .. }
            | Request::WorkerTransaction(_)
            | Request::Shutdown
            | Request::Yield => {
                return Err(ClientError::Nobody { root: self.root.clone() });
            }
        };
        Ok(self.apply(command)?.0.try_into()?)
    }

    fn state_by_files(&self) -> Result<Answer, ClientError> {
        let ledger = self.project()?.snapshot()?;
        Ok(Answer::State(Some(StateView::from(&ledger))))
    }

    fn status_by_files(&self, event_count: Option<u64>) -> Result<Answer, ClientError> {
        let status = StatusView::from(&self.project()?.snapshot()?);
        let count = StatusView::events_wanted(event_count);
        let events = trajectory::last(&self.root, count).unwrap_or_default();
        Ok(Answer::Status(StatusView { events, ..status }))
    }

    fn project(&self) -> Result<Project, ClientError> {
        let project = Project::open(&self.root)?.with_state_home(self.options.state_home.clone());
        Ok(project.with_backing(self.options.backing.clone()))
    }

    pub(super) fn store(&self) -> Result<LedgerStore, ClientError> {
        Ok(self.project()?.store(Locking::Each(self.options.lock_wait))?)
    }

    /// Applies one command. Returns also the path of an archive of tasks that it discarded.
    pub(super) fn apply(&self, command: Command) -> Result<(Reply, Option<PathBuf>), ClientError> {
        let command = redacted(command, self.secrets())?;
        let mut applied = self.store()?.apply(SystemClock.now(), std::slice::from_ref(&command))?;
        let archive = applied.archived.pop().map(|(_, path)| self.root.join(path));
        applied.warnings.iter().for_each(|warning| self.caller.warn(warning));
        match applied.replies.pop() {
            Some(reply) => Ok((reply?, archive)),
            None => Err(strange()),
        }
    }

    fn claim_by_files(&self, request: &TaskClaim) -> Result<Answer, ClientError> {
        let wait = request.wait_ms.map(Duration::from_millis);
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        loop {
            let claim = Claim {
                worker: request.worker_id.clone(),
                via: Via::Client,
                role: request.role.clone(),
                labels: request.labels.clone(),
                choice: ClaimChoice::Next,
                lease_seconds: request.lease_seconds.unwrap_or(CLIENT_LEASE_SECONDS),
                // A client does its own git work, so only HEAD of the repository is read.
                place: Place { base: glance::head(&self.root), ..Place::default() },
                parallel: None,
            };
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.filter(|left| !left.is_zero());
            let reply = match self.apply(Command::Claim(claim)) {
                Err(ClientError::Refused(why)) if why.code == Code::Paused && left.is_some() => {
                    Reply::NothingToClaim
                }
                reply => reply?.0,
            };
            match reply {
                Reply::Claimed(claimed) => {
                    self.keep_rules(&claimed);
                    let claimed = ClaimedTask::from(&*claimed);
                    return Ok(Answer::Claimed(Some(Box::new(claimed))));
                }
                Reply::NothingToClaim => {}
                _ => return Err(strange()),
            }
            match left {
                Some(left) => self.rest(left.min(LOOK))?,
                None => return Ok(Answer::Claimed(None)),
            }
        }
    }

    /// Rests, or ends when a stop is requested.
    fn rest(&self, time: Duration) -> Result<(), ClientError> {
        let Some(stop) = &self.options.stop else {
            thread::sleep(time);
            return Ok(());
        };
        let mut polled = [PollFd::new(stop, PollFlags::IN)];
        // An interrupted poll is a short pause.
        _ = poll(&mut polled, Timespec::try_from(time).ok().as_ref());
        if stop.is_cancelled() { Err(ClientError::Cancelled) } else { Ok(()) }
    }

    fn import_by_files(&self, text: &PlanText) -> Result<Answer, ClientError> {
        let import = import(text, self.caller.author())?;
        let command = || Command::Import(import.clone());
        // A ledger that was only lost is restored. The plan is then applied to its tasks.
        let applied = match self.apply(command()) {
            Err(ClientError::Store(StoreError::NoLedger { .. })) => {
                self.create_for(&import.plan)?;
                self.apply(command())
            }
            applied => applied,
        };
        match applied? {
            (Reply::Imported { goal, task_count, warnings, tasks }, archive) => {
                Ok(Answer::Imported(ImportedPlan { goal, task_count, warnings, archive, tasks }))
            }
            _ => Err(strange()),
        }
    }

    /// Creates a ledger for the plan, after checking it, because a refused plan must leave nothing
    /// behind.
    fn create_for(&self, plan: &Plan) -> Result<(), ClientError> {
        let checked = plan.check_graph(|_| false);
        checked.map_err(|why| Refused::new(Code::BadPlan, why.to_string()))?;
        let mut files = self.project()?.file_store(Locking::Each(self.options.lock_wait))?;
        match files.create(SystemClock.now())? {
            Created::New => self.caller.made(),
            // Another process was faster, and we must not trust its ledger.
            Created::Existed => {}
        }
        Ok(())
    }

    fn reset_by_files(&self) -> Result<Answer, ClientError> {
        match self.apply(Command::Reset)? {
            (Reply::Reset { task_count }, archive) => {
                Ok(Answer::Reset(ResetPlan::new(task_count, archive)))
            }
            _ => Err(strange()),
        }
    }

    fn acknowledge_by_files(&self) -> Result<Answer, ClientError> {
        // A ledger in a database has no file that others could edit.
        let LedgerStore::Files(mut store) = self.store()? else { return Ok(Answer::Nothing {}) };
        let acknowledged = store.acknowledge(SystemClock.now())?;
        acknowledged.warnings.iter().for_each(|warning| self.caller.warn(warning));
        Ok(Answer::Nothing {})
    }

    #[cfg(feature = "sqlite")]
    fn budget_by_files(&self, request: &BudgetRequest) -> Result<Answer, ClientError> {
        let found = self.project()?.budget(request.run_id.as_ref()).map_err(of_run)?;
        let change = request.budget();
        let row = if change.is_empty() { found.read() } else { found.change(change) };
        Ok(Answer::Budget(BudgetView::from(&row.map_err(of_run)?)))
    }

    /// Fails, because budgets are in the database of runs, which this build cannot read.
    #[cfg(not(feature = "sqlite"))]
    fn budget_by_files(&self, _: &BudgetRequest) -> Result<Answer, ClientError> {
        Err(Refused::new(Code::Failed, "this program has no SQLite, so it knows no runs").into())
    }

    /// Removes the waits of runs whose process is gone, and returns their number.
    #[cfg(feature = "sqlite")]
    fn forget_waits(&self) -> Result<u64, ClientError> {
        use crate::store::is_gone;
        use harness_core::{
            Run,
            command::{OfRun, RunStep},
            run::RunStatus,
        };

        let project = self.project()?;
        let Some(looked) = project.look_at_runs()? else { return Ok(0) };
        let waits = |run: &Run| {
            let driven = run.lease.as_ref().is_some_and(|lease| !is_gone(&lease.owner));
            run.status == RunStatus::Running && run.wake_at.is_some() && !driven
        };
        let waiting: Vec<Run> = looked.live()?.into_iter().filter(waits).collect();
        if waiting.is_empty() {
            return Ok(0);
        }
        let store = project.runs()?;
        let mut woken = 0;
        for run in waiting {
            let by = run.lease.map(|lease| lease.owner);
            let command = OfRun { run: run.id, by, step: RunStep::WaitUntil(None) };
            store.apply(SystemClock.now(), &command)??;
            woken += 1;
        }
        Ok(woken)
    }

    /// Fails, because the waits are in the database of runs, which this build cannot read.
    #[cfg(not(feature = "sqlite"))]
    fn forget_waits(&self) -> Result<u64, ClientError> {
        let database = crate::home::Home::of(&self.root).database();
        if !database.exists() {
            return Ok(0);
        }
        let why = format!("this program has no SQLite, so it cannot read {}", database.display());
        Err(Refused::new(Code::Failed, why).into())
    }
}

#[cfg(feature = "sqlite")]
fn of_run(why: RunError) -> ClientError {
    match why {
        RunError::Record(why) => ClientError::Runs(why),
        RunError::Refused(refusal) => Refused::from(refusal).into(),
        RunError::NothingToResume => Refused::new(Code::NoRun, "no run is unfinished").into(),
        RunError::Unknown { .. } => Refused::new(Code::NotFound, why.to_string()).into(),
        RunError::Succeeded { .. } => Refused::new(Code::RunFinished, why.to_string()).into(),
        why => Refused::new(Code::BadRequest, why.to_string()).into(),
    }
}

fn strange() -> ClientError {
    Refused::new(Code::Failed, "the store returned an unexpected answer").into()
}
