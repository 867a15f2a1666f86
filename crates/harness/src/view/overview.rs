//! The whole project on one page.

use std::{io, path::Path};

use harness_core::{
    Stats, TaskId, Timestamp,
    format::{ClaimGlance, Glance, TaskGlance},
    ledger::Alert,
    task::Status,
};
use serde::Serialize;

use super::{
    Need, NeedKind, NextStep, QuestionCard, RunHistory, RunSummary, TargetCard, TaskPage,
    WorkerCard,
};
use crate::{flows::ClosedGate, protocol::QuestionView, store::RegisteredWorker};

/// The inputs of a [`View`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ViewInputs<'a> {
    /// The state root.
    pub root: &'a Path,
    /// A snapshot of the ledger.
    pub ledger: &'a Glance<'a>,
    /// The runs that go on, the last one, and those that claims belong to.
    pub record: &'a RunHistory,
    /// The open questions of the host.
    pub questions: &'a [QuestionView],
    /// The gate that was tried last, if it stayed closed.
    pub gate: Option<&'a ClosedGate>,
    /// The last lines of the log.
    pub log: &'a [String],
    /// The workers that are registered.
    pub workers: &'a [RegisteredWorker],
    /// The number of results that the branch of the user lacks; see [`TargetCard::of`].
    pub ahead: Option<u32>,
}

impl<'a> ViewInputs<'a> {
    /// Creates inputs with a ledger and nothing else.
    pub fn new(root: &'a Path, ledger: &'a Glance<'a>, record: &'a RunHistory) -> Self {
        Self {
            root,
            ledger,
            record,
            questions: &[],
            gate: None,
            log: &[],
            workers: &[],
            ahead: None,
        }
    }
}

/// The state of a project.
///
/// It is serialised without its tasks; [`write_json`](Self::write_json) writes the document of
/// `harness status --json`, which has them as the ledger spells them.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct View<'a> {
    /// The time at which it was built.
    #[serde(skip)]
    pub time: Timestamp,
    /// The state root.
    #[serde(skip)]
    pub root: &'a Path,
    /// The number of tasks in each state.
    #[serde(skip)]
    pub counts: TaskCounts,
    /// The tasks, in ledger order.
    #[serde(skip)]
    pub tasks: &'a [TaskGlance<'a>],
    /// The last lines of the log.
    pub log: &'a [String],
    /// The number of sessions that have begun.
    pub session_count: u64,
    /// The time at which a session last ended.
    pub last_session: Option<Timestamp>,
    /// The time since which nothing is claimed; `None` if claiming is not paused.
    pub paused_at: Option<Timestamp>,
    /// The workers that run or hold a claim.
    pub workers: Vec<WorkerCard>,
    /// The branch on which results of several workers land.
    pub target: Option<TargetCard>,
    /// The runs that are active or were cut off, newest first.
    pub runs: Vec<RunSummary>,
    /// The alerts that put the ledger in doubt.
    pub alerts: Vec<AlertCard<'a>>,
    /// The purpose of the plan.
    pub goal: Option<&'a str>,
    /// The number of sessions that the ledger allows; zero or less for no limit.
    pub max_sessions: i64,
    /// The questions that wait for an answer.
    pub questions: Vec<QuestionCard>,
    /// The newest run, if it has ended.
    pub last_run: Option<RunSummary>,
    /// The gate that blocks the work.
    pub gate: Option<&'a ClosedGate>,
    /// The needs that wait for a person, the most urgent first.
    pub needs: Vec<Need>,
    /// The tasks whose claim belongs to a run that no process drives, with that run.
    #[serde(skip)]
    abandoned: Vec<(&'a str, RunSummary)>,
    #[serde(skip)]
    ledger: &'a Glance<'a>,
}

/// An alert of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AlertCard<'a> {
    /// The time at which it was raised.
    pub time: Timestamp,
    /// The task that it concerns; `None` for the whole ledger.
    pub task: Option<&'a TaskId>,
    /// The message for people.
    pub message: &'a str,
}

impl<'a> From<&'a Alert> for AlertCard<'a> {
    fn from(alert: &'a Alert) -> Self {
        Self { time: alert.time, task: alert.task.as_ref(), message: &alert.message }
    }
}

/// The number of tasks in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TaskCounts {
    /// All tasks.
    pub total: usize,
    /// Tasks that are done.
    pub completed: usize,
    /// Tasks whose last attempt failed.
    pub failed: usize,
    /// Tasks that nobody has claimed, blocked ones among them.
    pub pending: usize,
    /// Claimed tasks.
    pub in_progress: usize,
    /// Pending tasks that depend, directly or not, on one that failed for good.
    pub blocked: usize,
}

impl From<Stats> for TaskCounts {
    fn from(stats: Stats) -> Self {
        let Stats { total, completed, failed, pending, in_progress, blocked, .. } = stats;
        Self { total, completed, failed, pending, in_progress, blocked }
    }
}

impl<'a> View<'a> {
    /// Returns the state of the project at `now`.
    pub fn of(inputs: &ViewInputs<'a>, now: Timestamp) -> Self {
        let ViewInputs { root, ledger, record, questions, gate, log, workers, ahead } = *inputs;
        let abandoned = abandoned(&ledger.tasks, record);
        let is_abandoned = |task: &str| abandoned.iter().any(|(id, _)| *id == task);
        let workers = WorkerCard::glanced(ledger, workers, is_abandoned, now);
        let Glance { head, tasks, stats, .. } = ledger;
        let runs: Vec<RunSummary> = record.live().map(|run| RunSummary::of(run, record)).collect();
        let counts = TaskCounts::from(*stats);
        let gate = gate.filter(|gate| gate.is_current(&head.phases));
        let mut view = Self {
            time: now,
            root,
            counts,
            tasks,
            log,
            session_count: head.session_count,
            last_session: head.last_session,
            paused_at: head.paused_at,
            workers,
            target: TargetCard::of(&head.session_config, ahead),
            last_run: last_run(record, counts)
                .map(|run| run.stopped_at_no_check(head, stats, || unchecked(tasks))),
            runs,
            alerts: head.alerts.iter().map(AlertCard::from).collect(),
            goal: head.goal.as_deref(),
            max_sessions: head.session_config.max_sessions,
            questions: questions.iter().map(QuestionCard::from).collect(),
            gate,
            needs: Vec::new(),
            abandoned,
            ledger,
        };
        view.needs = view.needs();
        view
    }

    fn needs(&self) -> Vec<Need> {
        let mut needs: Vec<Need> = self.questions.iter().map(Need::question).collect();
        let tops = self.runs.iter().filter(|run| run.parent_run_id.is_none());
        needs.extend(tops.chain(&self.last_run).filter_map(Need::run));
        needs.extend(self.gate.map(|gate| {
            let text = format!("the gate of {} is closed: {}", gate.phase, gate.why);
            Need::of(NeedKind::Gate, text, NextStep::Run)
        }));
        needs.extend(self.alerts.iter().map(|alert| Need {
            task_id: alert.task.cloned(),
            ..Need::of(NeedKind::Alert, alert.message, NextStep::Acknowledge)
        }));
        needs
    }

    /// Returns the run that a task's claim belongs to, if no process drives that run any more.
    #[must_use]
    pub fn abandoned(&self, task: &TaskGlance<'_>) -> Option<&RunSummary> {
        self.abandoned.iter().find(|(id, _)| **id == *task.id).map(|(_, run)| run)
    }

    /// Returns the tasks that fit in `rows` lines; all of them for `None`.
    #[must_use]
    pub fn page(&self, rows: Option<usize>) -> TaskPage<'a> {
        rows.map_or_else(|| TaskPage::whole(self.tasks), |rows| TaskPage::of(self.tasks, rows))
    }

    /// Writes the document of `harness status --json` on one line, without an end of line. The
    /// tasks are written exactly as in the ledger, with the fields that this version does not know.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Lead {
            version: u32,
            counts: TaskCounts,
        }
        let lead = serde_json::to_string(&Lead { version: 1, counts: self.counts })?;
        let rest = serde_json::to_string(self)?;
        out.write_all(lead.trim_end_matches('}').as_bytes())?;
        out.write_all(b"},\"tasks\":")?;
        self.ledger.tasks_json(&mut |piece| out.write_all(piece))?;
        out.write_all(b",")?;
        out.write_all(rest.trim_start_matches('{').as_bytes())
    }
}

/// Returns the newest run, if it has ended and is still worth showing. A run over the ledger that
/// finished its work is not, because the tasks show the result.
fn last_run(record: &RunHistory, counts: TaskCounts) -> Option<RunSummary> {
    let run = record.tops().next().filter(|run| run.status.is_over())?;
    let is_left = counts.completed < counts.total;
    let summary = RunSummary::of(run, record);
    match (&summary.objective, &summary.next) {
        (Some(_), _) => Some(summary),
        (None, Some(_)) => is_left.then_some(summary),
        (None, None) => None,
    }
}

/// Returns the first task that could be worked on if it had a check.
fn unchecked(tasks: &[TaskGlance<'_>]) -> Option<TaskId> {
    let open = |task: &&TaskGlance<'_>| match task.status {
        Status::Pending => !task.blocked,
        Status::Failed => task.attempts < task.max_attempts,
        Status::InProgress | Status::Completed => false,
    };
    let task = tasks.iter().filter(open).find(|task| !task.checked)?;
    TaskId::parse(&task.id).ok()
}

fn abandoned<'a>(tasks: &'a [TaskGlance<'a>], record: &RunHistory) -> Vec<(&'a str, RunSummary)> {
    let run = |task: &'a TaskGlance<'a>| {
        let ClaimGlance { epoch, .. } = **task.claim.as_ref()?;
        let id = TaskId::parse(&task.id).ok()?;
        Some((&*task.id, record.abandoned(&id, epoch)?))
    };
    tasks.iter().filter_map(run).collect()
}
