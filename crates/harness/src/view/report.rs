//! The summary that a person reads in the morning: landed, failed and waiting tasks.

use std::collections::{HashMap, HashSet};

use harness_core::{
    Flag, Ledger, Receipt, Standing, Stats, Task, TaskId, Timestamp, check::Baseline, task::Status,
};
use serde::Serialize;

use super::{
    NextStep, QuestionCard, RunSummary, Spending, TargetCard, TaskCounts, TaskDetail,
    TaskSurroundings, WorkerShare, overview::AlertCard,
};
use crate::{flows::ClosedGate, store::PullRequest, workspace::LANDED};

/// The inputs of a [`ProjectReport`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReportInputs<'a> {
    /// A snapshot of the ledger.
    pub ledger: &'a Ledger,
    /// Runs, questions and gates.
    pub around: TaskSurroundings<'a>,
    /// The receipts of completed tasks.
    pub receipts: HashMap<TaskId, Receipt>,
    /// The name of the latest rescue of a task.
    pub rescues: HashMap<TaskId, String>,
    /// The tasks whose result is on no branch.
    pub unmerged: HashSet<TaskId>,
    /// The number of results that the branch of the user lacks; see [`TargetCard::of`].
    pub ahead: Option<u32>,
    /// The pull requests that runs opened, oldest first.
    pub pull_requests: Vec<PullRequest>,
}

impl<'a> ReportInputs<'a> {
    /// Creates inputs with a ledger and its surroundings, without receipts and without git.
    pub fn new(ledger: &'a Ledger, around: TaskSurroundings<'a>) -> Self {
        let (receipts, rescues, unmerged) = Default::default();
        let pull_requests = Vec::new();
        Self { ledger, around, receipts, rescues, unmerged, ahead: None, pull_requests }
    }
}

/// The landed, failed and waiting tasks of a project.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ProjectReport<'a> {
    /// The number of tasks in each state.
    pub counts: TaskCounts,
    /// Completed tasks, the first one first.
    pub landed: Vec<LandedEntry>,
    /// Tasks whose last attempt failed.
    pub failed: Vec<FailedEntry>,
    /// Tasks that need a person to continue.
    pub waiting: Vec<WaitingEntry>,
    /// Tasks that the next session continues with.
    pub open: Vec<TaskId>,
    /// The cost of all runs.
    #[serde(flatten)]
    pub spending: Spending,
    /// The alerts that put the ledger in doubt.
    pub alerts: Vec<AlertCard<'a>>,
    /// The questions that wait for an answer.
    pub questions: Vec<QuestionCard>,
    /// Runs with an objective, and the newest run over the ledger if it stopped with work left; newest
    /// first.
    pub runs: Vec<RunSummary>,
    /// The gate that blocks the work.
    pub gate: Option<&'a ClosedGate>,
    /// What each worker did, sorted by id.
    pub workers: Vec<WorkerShare>,
    /// The branch on which results of several workers land.
    pub target: Option<TargetCard>,
    /// The pull requests that runs opened, oldest first.
    pub pull_requests: Vec<PullRequest>,
}

/// A task that is completed.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct LandedEntry {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// The commit that contains the work.
    pub commit: Option<String>,
    /// The check that passed.
    pub command: Option<String>,
    /// The duration of the check.
    pub duration_ms: Option<u64>,
    /// The number of attempts that ended.
    pub attempts: u32,
    /// The time at which it was completed.
    pub completed_at: Option<Timestamp>,
    /// The warnings that a person should read before trusting it.
    pub flags: Vec<String>,
    /// The next step for a person.
    pub next: NextStep,
    /// The worker that completed it, if that is known.
    pub worker: Option<String>,
    /// The agent that did it, if that is known.
    pub agent: Option<String>,
    /// The protected files, tests for example, that the work changed.
    pub protected: Vec<String>,
    /// The tests that the work changed.
    pub tests: Vec<String>,
    /// The cost of its attempts.
    #[serde(flatten)]
    pub spending: Spending,
}

/// A task whose last attempt failed.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct FailedEntry {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// The decisive entry of its error log.
    pub error: Option<String>,
    /// The number of attempts that ended.
    pub attempts: u32,
    /// The number of attempts after which it has failed for good.
    pub max_attempts: u32,
    /// Whether it will not be tried again.
    pub for_good: bool,
    /// The name of the rescue that its last rollback saved.
    pub rescue: Option<String>,
    /// The next step for a person.
    pub next: NextStep,
    /// The transcript of its last attempt, relative to the state root.
    pub transcript: Option<String>,
    /// The cost of its attempts.
    #[serde(flatten)]
    pub spending: Spending,
}

/// A task that needs a person to continue.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct WaitingEntry {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// The reason why it waits.
    pub why: String,
    /// The next step for a person.
    pub next: NextStep,
}

impl<'a> ProjectReport<'a> {
    /// Returns the report about the work until `now`.
    pub fn of(inputs: &ReportInputs<'a>, now: Timestamp) -> Self {
        let (ledger, around) = (inputs.ledger, inputs.around);
        let counts = TaskCounts::from(Stats::of(ledger));
        let head = ledger.head();
        let mut report = Self {
            counts,
            landed: Vec::new(),
            failed: Vec::new(),
            waiting: Vec::new(),
            open: Vec::new(),
            spending: around.record.spending(),
            alerts: head.alerts.iter().map(AlertCard::from).collect(),
            questions: around.questions.iter().map(QuestionCard::from).collect(),
            runs: runs(&around, ledger),
            gate: around.gate.filter(|gate| gate.is_current(&head.phases)),
            workers: Vec::new(),
            target: TargetCard::of(&head.session_config, inputs.ahead),
            pull_requests: inputs.pull_requests.clone(),
        };
        for task in ledger.tasks() {
            let detail = TaskDetail::of(task, Standing::of(ledger, task), &around, now);
            report.take_in(inputs, detail, now);
        }
        report.landed.sort_by_key(|landed| landed.completed_at);
        report.workers = WorkerShare::of(&report.landed, around.workers);
        report
    }

    fn take_in(&mut self, inputs: &ReportInputs<'_>, detail: TaskDetail<'_>, now: Timestamp) {
        let task = detail.task;
        match task.status() {
            Status::Completed => {
                let mut landed = LandedEntry::of(detail, inputs.receipts.get(&task.id));
                if inputs.unmerged.contains(&task.id) {
                    landed.flags.push(format!("on no branch, kept by {LANDED}{}", task.id));
                }
                self.landed.push(landed);
            }
            Status::Failed => {
                let rescue = inputs.rescues.get(&task.id).cloned();
                self.failed.push(FailedEntry::of(detail, rescue));
                if task.retryable() {
                    self.open.push(task.id.clone());
                }
            }
            Status::Pending | Status::InProgress => match detail.waits_for_person(now) {
                Some(why) => {
                    let (id, title) = (task.id.clone(), task.title.clone());
                    self.waiting.push(WaitingEntry { id, title, why, next: detail.next });
                }
                None => self.open.push(task.id.clone()),
            },
        }
    }
}

fn runs(around: &TaskSurroundings<'_>, ledger: &Ledger) -> Vec<RunSummary> {
    let stats = Stats::of(ledger);
    let record = around.record;
    let newest = record.tops().next().map(|run| run.id.clone());
    let is_left = stats.completed < stats.total;
    let summaries = record.tops().map(|run| {
        let summary = RunSummary::of(run, record);
        summary.stopped_at_no_check(ledger.head(), &stats, || unchecked(ledger))
    });
    let is_shown = |run: &RunSummary| {
        let stopped = is_left && run.next.is_some() && Some(&run.run_id) == newest.as_ref();
        run.objective.is_some() || stopped
    };
    summaries.filter(is_shown).collect()
}

/// Returns the first task that could be worked on if it had a check.
fn unchecked(ledger: &Ledger) -> Option<TaskId> {
    let open = |task: &&Task| {
        task.check().is_none()
            && matches!(Standing::of(ledger, task), Standing::Next | Standing::Ready)
    };
    ledger.tasks().find(open).map(|task| task.id.clone())
}

impl LandedEntry {
    pub(super) fn of(detail: TaskDetail<'_>, receipt: Option<&Receipt>) -> Self {
        let task = detail.task;
        let check = receipt.and_then(|r| r.check.as_ref());
        let mut spending = detail.spending;
        spending.cost_usd = spending.cost_usd.or(receipt.and_then(|r| r.cost_usd));
        let newest = detail.runs.first().map(|run| run.agent.clone());
        Self {
            id: task.id.clone(),
            title: task.title.clone(),
            commit: receipt.and_then(|r| r.commit.as_ref()).map(ToString::to_string),
            command: check.map(|c| c.command.clone()),
            duration_ms: check.map(|c| c.duration_ms),
            attempts: task.attempts,
            completed_at: task.completed_at(),
            flags: flags(task, receipt),
            next: detail.next,
            worker: receipt
                .map(|r| r.worker.to_string())
                .or_else(|| task.claimed_by().map(ToString::to_string)),
            agent: receipt.and_then(|r| r.agent.clone()).or(newest),
            protected: receipt.map(|r| r.protected.clone()).unwrap_or_default(),
            tests: receipt.map(|r| r.tests.clone()).unwrap_or_default(),
            spending,
        }
    }
}

impl FailedEntry {
    fn of(detail: TaskDetail<'_>, rescue: Option<String>) -> Self {
        let task = detail.task;
        Self {
            id: task.id.clone(),
            title: task.title.clone(),
            error: task.dependency_entry().or(task.error_log.last()).map(ToString::to_string),
            attempts: task.attempts,
            max_attempts: task.max_attempts,
            for_good: task.failed_for_good(),
            rescue,
            next: detail.next,
            transcript: detail.runs.first().and_then(|run| run.transcripts.last().cloned()),
            spending: detail.spending,
        }
    }
}

/// Returns the warnings that a person should read before trusting a completion.
fn flags(task: &Task, receipt: Option<&Receipt>) -> Vec<String> {
    let mut flags = Vec::new();
    let Some(receipt) = receipt else {
        flags.push("no receipt".to_owned());
        flags.extend(task.flags.iter().map(ToString::to_string));
        return flags;
    };
    if receipt.check.is_none() {
        flags.push(format!("on the word of {}", receipt.worker));
    }
    if receipt.baseline == Some(Baseline::Green) {
        flags.push("its check passed before any work".to_owned());
    }
    flags.extend(receipt.of_no_commit());
    if !receipt.protected.is_empty() {
        flags.push(harness_core::protect::touched(&receipt.protected));
    }
    let is_named = |file: &&String| receipt.protected.contains(file);
    let tests: Vec<String> = receipt.tests.iter().filter(|file| !is_named(file)).cloned().collect();
    if !tests.is_empty() {
        flags.push(format!("changed tests: {}", harness_core::protect::named(&tests)));
    }
    let told = [Flag::GreenBefore, Flag::Protected];
    let others = receipt.flags.iter().filter(|flag| !told.contains(flag));
    flags.extend(others.map(ToString::to_string));
    flags
}
