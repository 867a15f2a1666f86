//! The decisions that wait for a person.

use harness_core::{RunId, Task, TaskId, run::StopReason, task::FailureCause};
use serde::Serialize;

use super::{NextStep, QuestionCard, RunCondition, RunSummary, TargetCard};

/// A matter that only a person can settle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Need {
    /// The kind of the matter.
    pub kind: NeedKind,
    /// The run that it concerns.
    pub run_id: Option<RunId>,
    /// The task that it concerns.
    pub task_id: Option<TaskId>,
    /// One line for people, which may contain text of agents.
    pub text: String,
    /// The command that settles it.
    pub next: NextStep,
}

/// The reason why a person is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NeedKind {
    /// An agent asks a question.
    Question,
    /// A phase waits for approval.
    Approval,
    /// A run was killed.
    CutOff,
    /// A run stopped with work left.
    Stopped,
    /// The gate of a phase is closed.
    Gate,
    /// The ledger raised an alert.
    Alert,
    /// The budget of a run is spent.
    Budget,
    /// A task failed for good.
    Failed,
    /// What the ledger would run is not trusted.
    Untrusted,
    /// Results wait on a branch of their own.
    Results,
}

impl Need {
    pub(super) fn of(kind: NeedKind, text: impl Into<String>, next: NextStep) -> Self {
        Self { kind, run_id: None, task_id: None, text: text.into(), next }
    }

    pub(super) fn question(card: &QuestionCard) -> Self {
        let kind = match card.question.phase {
            Some(_) => NeedKind::Approval,
            None => NeedKind::Question,
        };
        let text = match &card.question.host {
            Some(host) => format!("{} (on {host})", card.question.question),
            None => card.question.question.clone(),
        };
        Self::of(kind, text, card.next.clone())
    }

    /// Returns the need of a task that failed for good by itself, and not because of one before it.
    pub(super) fn failed(task: &Task) -> Option<Self> {
        let cause = task.failure().filter(|_| task.failed_for_good()).map(|f| &f.cause)?;
        let next = match cause {
            FailureCause::Dependency(_) => return None,
            FailureCause::Graph => NextStep::SetDependencies(task.id.clone()),
            FailureCause::Attempt | FailureCause::Lease => NextStep::Retry(task.id.clone()),
        };
        let why = task.error_log.last().map(ToString::to_string).unwrap_or_default();
        let text = format!("{} failed for good: {why}", task.title);
        Some(Self { task_id: Some(task.id.clone()), ..Self::of(NeedKind::Failed, text, next) })
    }

    /// Returns the need to take results from a branch of their own.
    pub(super) fn results(target: &TargetCard) -> Option<Self> {
        let next = target.hint().and_then(|_| target.detached()).map(|name| target.take(name))?;
        let branch = target.detached().map(|name| target.shown(name)).unwrap_or_default();
        let text = match target.ahead {
            Some(1) => format!("1 result waits on {branch}"),
            Some(many) => format!("{many} results wait on {branch}"),
            None => format!("results wait on {branch}"),
        };
        Some(Self::of(NeedKind::Results, text, next))
    }

    /// Returns the need of a run that no process drives and that can be resumed.
    pub(super) fn run(run: &RunSummary) -> Option<Self> {
        let next = run.next.clone()?;
        let (kind, text) = match (run.condition, run.stop_reason) {
            (RunCondition::CutOff, _) => (NeedKind::CutOff, "the run was cut off".to_owned()),
            (RunCondition::Over, Some(StopReason::Budget)) => {
                (NeedKind::Budget, format!("the budget is spent: {}", run.used_up()))
            }
            (RunCondition::Over, Some(reason)) => {
                (NeedKind::Stopped, format!("the run stopped: {reason}"))
            }
            (RunCondition::Over, None) => (NeedKind::Stopped, "the run stopped".to_owned()),
            (RunCondition::Working | RunCondition::AsksPerson | RunCondition::WaitsForLimit, _) => {
                return None;
            }
        };
        let (run_id, task_id) = (Some(run.run_id.clone()), run.task_id.clone());
        Some(Self { run_id, task_id, ..Self::of(kind, text, next) })
    }
}
