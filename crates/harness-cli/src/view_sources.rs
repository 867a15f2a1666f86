//! The sources of views: the files and the host of a root.

mod board;
mod recent_events;
mod story;
mod transcript;

pub(crate) use board::BoardSource;
pub(crate) use story::{diff, story};
#[allow(unused_imports, reason = "for the pages of a browser")]
pub(crate) use story::{money, objectives};
pub(crate) use transcript::{TranscriptPage, transcript};

use std::collections::BTreeSet;

use harness::{
    client::{Hosts, open_questions},
    clock::{Clock as _, SystemClock},
    flows::ClosedGate,
    project::LedgerText,
    protocol::QuestionView,
    store::{
        Presence, PullRequest, RegisteredWorker, Registry, RunStoreError, Runs, WorkerRecord,
        is_gone,
    },
    view::{
        ProjectReport, ReportInputs, RunHistory, TargetCard, TaskSurroundings, View, ViewInputs,
        WorkerCard,
    },
    workspace::{Rescue, Workspace as _},
};
use harness_core::{
    Epoch, Ledger, Receipt, Run, Task, TaskId, Timestamp,
    database::HostPresence,
    format::{Glance, TaskGlance},
    ledger::SessionConfig,
    task::Status,
};

use crate::{
    environment::Environment,
    failure::Result,
    host::places,
    invocation::Invocation,
    log_file,
    paint::warn,
    repository::{self, workspace},
    root::StateRoot,
};

/// The number of lines of the log in a view.
const LOG_LINES: usize = 5;

/// The files at one moment, and the answers of the host at that moment.
pub(crate) struct ViewSources<'a> {
    root: &'a StateRoot,
    text: LedgerText,
    log: Vec<String>,
    pub(crate) surroundings: Surroundings,
}

/// The state besides the ledger and the runs.
#[derive(PartialEq, Eq)]
pub(crate) struct Surroundings {
    questions: Vec<QuestionView>,
    gate: Option<ClosedGate>,
    workers: Vec<RegisteredWorker>,
}

impl Surroundings {
    /// Reads the state without waiting. A host that does not answer at once counts as one without
    /// questions.
    pub(crate) fn read(invocation: &Invocation, root: &StateRoot) -> Self {
        Self::of(&invocation.env, root)
    }

    /// Does the same for a surface that outlives the command.
    pub(crate) fn of(env: &Environment, root: &StateRoot) -> Self {
        let hosts = match env.get("HARNESS_DAEMON").is_some_and(|value| value == "off") {
            true => Hosts::Ignored,
            false => Hosts::Asked,
        };
        let questions = open_questions(root.path(), hosts, &places(env), root.backing());
        // An unreadable file must not prevent the display of the rest.
        let gate = ClosedGate::read(root.path()).ok().flatten();
        let mut workers = Registry::of(root.path()).workers().unwrap_or_default();
        workers.extend(elsewhere(root, &workers));
        Self { questions, gate, workers }
    }

    /// Returns the workers of `ledger`.
    pub(crate) fn workers(
        &self,
        ledger: &Ledger,
        record: &RunHistory,
        now: Timestamp,
    ) -> Vec<WorkerCard> {
        let abandoned = |task: &TaskId, epoch| record.abandoned(task, epoch).is_some();
        WorkerCard::all(ledger, &self.workers, abandoned, now)
    }

    pub(crate) fn of_task<'a>(
        &'a self,
        record: &'a RunHistory,
        workers: &'a [WorkerCard],
        paused_at: Option<Timestamp>,
    ) -> TaskSurroundings<'a> {
        let mut around = TaskSurroundings::new(record);
        around.questions = &self.questions;
        around.gate = self.gate.as_ref();
        around.workers = workers;
        around.paused_at = paused_at;
        around
    }
}

/// Returns the workers of other machines, if the ledger is in a database.
fn elsewhere(root: &StateRoot, here: &[RegisteredWorker]) -> Vec<RegisteredWorker> {
    let Ok(Some(database)) = root.backing().open() else { return Vec::new() };
    let (Ok(workers), Ok(now)) = (database.workers(), database.now()) else { return Vec::new() };
    let is_here = |id: &harness_core::WorkerId| here.iter().any(|known| known.record.id == *id);
    let others = workers.into_iter().filter(|worker| !is_here(&worker.id));
    let registered = others.map(|worker| RegisteredWorker {
        presence: match HostPresence::of(now.since(worker.seen_at)) {
            HostPresence::Present => Presence::Alive,
            HostPresence::Gone => Presence::Dead,
        },
        record: WorkerRecord {
            id: worker.id,
            pid: worker.pid,
            host: worker.host,
            boot: worker.boot,
            started_at: worker.started_at,
            run: worker.run,
            worktree: None,
            socket: None,
            labels: worker.labels,
        },
    });
    registered.collect()
}

impl<'a> ViewSources<'a> {
    pub(crate) fn read(invocation: &Invocation, root: &'a StateRoot) -> Result<Self> {
        let (text, remark) = root.seen_text()?;
        if let Some(remark) = &remark {
            warn(remark);
        }
        let log = match remark {
            None => log_file::last_lines(root, LOG_LINES)?,
            Some(_) => Vec::new(),
        };
        let surroundings = Surroundings::read(invocation, root);
        Ok(Self { root, text, log, surroundings })
    }

    pub(crate) fn ledger(&self) -> Result<Glance<'_>> {
        Ok(self.text.glance()?)
    }

    /// Returns the rows that a view of `ledger` needs.
    pub(crate) fn record(&self, ledger: &Glance<'_>) -> RunHistory {
        let claims = ledger.tasks.iter().filter(|task| task.claim.is_some());
        readable(self.root, |store| {
            let mut runs = store.recent()?;
            claims.for_each(|task| take_claim(store, task, &mut runs));
            Ok(runs)
        })
    }

    pub(crate) fn view<'b>(
        &'b self,
        ledger: &'b Glance<'b>,
        record: &'b RunHistory,
        ahead: Option<u32>,
        now: Timestamp,
    ) -> View<'b> {
        let mut inputs = ViewInputs::new(self.root.path(), ledger, record);
        inputs.questions = &self.surroundings.questions;
        inputs.gate = self.surroundings.gate.as_ref();
        inputs.log = &self.log;
        inputs.workers = &self.surroundings.workers;
        inputs.ahead = ahead;
        View::of(&inputs, now)
    }
}

/// Calls `show` with the report about the project.
pub(crate) fn report<T>(
    invocation: &Invocation,
    root: &StateRoot,
    ledger: &Ledger,
    show: impl FnOnce(&ProjectReport<'_>, Timestamp) -> Result<T>,
) -> Result<T> {
    let record = whole_record(root, None);
    let surroundings = Surroundings::read(invocation, root);
    let now = SystemClock.now();
    let workers = surroundings.workers(ledger, &record, now);
    let paused_at = ledger.head().paused_at;
    let around = surroundings.of_task(&record, &workers, paused_at);
    let mut inputs = ReportInputs::new(ledger, around);
    inputs.ahead = ahead(invocation, root, &ledger.head().session_config);
    inputs.pull_requests = PullRequest::all(root.path()).unwrap_or_default();
    take_evidence(invocation, root, ledger, &mut inputs);
    show(&ProjectReport::of(&inputs, now), now)
}

/// Adds receipts, and the data of git: the latest rescue of each task, and results on no branch.
fn take_evidence(
    invocation: &Invocation,
    root: &StateRoot,
    ledger: &Ledger,
    inputs: &mut ReportInputs<'_>,
) {
    let receipts =
        ledger.tasks().filter_map(|task| Some((task.id.clone(), receipt_of(root, task)?)));
    inputs.receipts = receipts.collect();
    let Ok(git) = invocation.workspace(root) else { return };
    let rescues = git.rescues(None).unwrap_or_default();
    let name = |found: &Rescue| {
        let name = repository::short(found).to_owned();
        let task = TaskId::parse(name.split_once('/')?.0).ok()?;
        Some((task, name))
    };
    inputs.rescues = rescues.iter().filter_map(name).collect();
    let unmerged = git.landed().unwrap_or_default();
    inputs.unmerged = unmerged.iter().filter_map(|id| TaskId::parse(id).ok()).collect();
}

/// Returns the evidence of a completion.
pub(crate) fn receipt_of(root: &StateRoot, task: &Task) -> Option<Receipt> {
    let completed = task.status() == Status::Completed;
    let epoch = task.epoch.filter(|_| completed)?;
    root.receipt(&task.id, epoch).ok().flatten()
}

/// Returns the number of results that the branch of the user lacks. Git is only asked if results are
/// on another branch, and `None` is returned if it cannot answer.
pub(crate) fn ahead(
    invocation: &Invocation,
    root: &StateRoot,
    config: &SessionConfig,
) -> Option<u32> {
    commits_ahead(&invocation.env, root, config)
}

fn commits_ahead(env: &Environment, root: &StateRoot, config: &SessionConfig) -> Option<u32> {
    let target = TargetCard::of(config, None)?;
    let branch = target.detached()?;
    let than = Some(target.branch.as_str()).filter(|than| *than != branch);
    let workspace = workspace(env, root, root.path()).ok()?;
    match &target.remote {
        Some(remote) => workspace.commits_to_pull(remote, branch).ok(),
        None => workspace.commits_ahead(branch, than).ok(),
    }
}

/// Adds the attempt that a claim belongs to, with its run. A row that cannot be read is left out.
fn take_claim(store: &dyn Runs, task: &TaskGlance<'_>, runs: &mut Vec<Run>) {
    let epoch = task.claim.as_ref().and_then(|claim| claim.epoch);
    let (Ok(id), Some(epoch)) = (TaskId::parse(&task.id), epoch) else { return };
    take_attempt(store, &id, epoch, runs);
}

/// Adds an attempt, with its run. A row that cannot be read is left out.
fn take_attempt(store: &dyn Runs, id: &TaskId, epoch: Epoch, runs: &mut Vec<Run>) {
    let Ok(Some(attempt)) = store.attempt(id, epoch) else { return };
    if let Some(Ok(Some(parent))) = attempt.parent.as_ref().map(|parent| store.run(parent)) {
        runs.push(parent);
    }
    runs.push(attempt);
}

/// Returns all rows, with the iterations of the attempts at `task`, or of all attempts.
pub(crate) fn whole_record(root: &StateRoot, task: Option<&TaskId>) -> RunHistory {
    record_with(root, |run| match task {
        Some(task) => run.task.as_ref() == Some(task),
        None => run.task.is_some(),
    })
}

/// Returns the attempts at `task` with their runs and iterations. An unreadable record has none.
fn task_record(root: &StateRoot, task: &TaskId) -> RunHistory {
    let mut iterations = Vec::new();
    let record = read_rows(root, |store| {
        let mut runs = store.of_task(task)?;
        for run in &runs {
            iterations.push((run.id.clone(), store.iterations(&run.id)?));
        }
        let parents: BTreeSet<_> = runs.iter().filter_map(|run| run.parent.clone()).collect();
        for parent in parents {
            runs.extend(store.run(&parent)?);
        }
        Ok(runs)
    });
    let record = record.unwrap_or_default();
    iterations.into_iter().fold(record, |record, (run, rows)| record.with_iterations(run, rows))
}

/// Returns all rows, with the iterations of attempts and of objectives.
fn with_all_iterations(root: &StateRoot) -> RunHistory {
    record_with(root, |run| run.task.is_some() || run.objective.is_some())
}

/// Returns all rows, with the iterations of those that `is_wanted` accepts.
fn record_with(root: &StateRoot, is_wanted: impl Fn(&Run) -> bool) -> RunHistory {
    let mut iterations = Vec::new();
    let record = readable(root, |store| {
        let runs = store.runs()?;
        for run in runs.iter().filter(|run| is_wanted(run)) {
            iterations.push((run.id.clone(), store.iterations(&run.id)?));
        }
        Ok(runs)
    });
    iterations.into_iter().fold(record, |record, (run, rows)| record.with_iterations(run, rows))
}

/// Returns all rows, without iterations.
pub(crate) fn all_runs(root: &StateRoot) -> RunHistory {
    readable(root, |store| store.runs())
}

/// Returns the rows that can be read. An unreadable record must not prevent the display of the
/// rest.
fn readable(
    root: &StateRoot,
    read: impl FnOnce(&dyn Runs) -> Result<Vec<Run>, RunStoreError>,
) -> RunHistory {
    read_rows(root, read).unwrap_or_else(|why| {
        warn(&why.to_string());
        RunHistory::default()
    })
}

fn read_rows(
    root: &StateRoot,
    read: impl FnOnce(&dyn Runs) -> Result<Vec<Run>, RunStoreError>,
) -> Result<RunHistory, RunStoreError> {
    let runs = match root.look_at_runs()? {
        Some(store) => read(&*store)?,
        None => Vec::new(),
    };
    Ok(RunHistory::of(runs, is_gone))
}
