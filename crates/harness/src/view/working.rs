//! What is being worked on: the claims of workers, and objectives of runs.

use harness_core::{
    Epoch, Ledger, RunId, TaskId, Timestamp,
    run::{Run, RunStatus},
};
use serde::Serialize;

use super::{ActivityLog, RunHistory, Spending, WorkerCard, WorkerCondition};

/// A task or an objective at work.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorkingEntry {
    /// The worker; `None` for an objective.
    pub worker: Option<String>,
    /// What the worker does.
    pub state: WorkerCondition,
    /// The task; `None` for an objective.
    pub task_id: Option<String>,
    /// The title of the task, or the objective.
    pub title: String,
    /// The row of the attempt or of the objective.
    pub run_id: Option<RunId>,
    /// The epoch of the claim.
    pub epoch: Option<Epoch>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The number of attempts after which the task has failed for good.
    pub max_attempts: u32,
    /// The number of the context, from 1.
    pub iteration: Option<u32>,
    /// The number of contexts that may begin.
    pub max_iterations: Option<u32>,
    /// The name of the agent.
    pub agent: Option<String>,
    /// The start of the attempt.
    pub started_at: Option<Timestamp>,
    /// The time of the last event.
    pub last_event_at: Option<Timestamp>,
    /// The last line of activity, which is the text of an agent.
    pub activity: Option<String>,
    /// The end of the lease.
    pub lease_expires_at: Option<Timestamp>,
    /// The place of its result in the line to land, from 1.
    pub landing: Option<usize>,
    /// The end of its wait for a usage limit.
    pub wake_at: Option<Timestamp>,
    /// The last checkpoint.
    pub progress: Option<Progress>,
    /// What the attempt has used so far.
    #[serde(flatten)]
    pub spending: Spending,
}

/// The progress of an attempt, by its last checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// The finished step.
    pub step: u32,
    /// The number of steps.
    pub total: u32,
    /// A description, which is the text of an agent.
    pub description: String,
}

impl WorkingEntry {
    /// Returns the entry of a worker that holds a task.
    pub(super) fn of_claim(
        card: &WorkerCard,
        ledger: &Ledger,
        record: &RunHistory,
        seen: &ActivityLog,
    ) -> Option<Self> {
        let id = TaskId::parse(card.task_id.as_deref()?).ok()?;
        let task = ledger.task(&id)?;
        let attempts = || record.attempts(&id);
        let row = attempts().find(|run| run.epoch == card.epoch);
        let activity = seen.of(&card.id, Some(id.as_str()));
        let step = task.checkpoints.last();
        let iteration = activity.and_then(|a| a.iteration).or(row.map(|row| row.iteration_count));
        let most = activity.and_then(|a| a.max_iterations);
        let most = most.or(row.map(|row| row.limits.max_iterations));
        Some(Self {
            worker: Some(card.id.clone()),
            state: card.state,
            task_id: Some(id.to_string()),
            title: task.title.clone(),
            run_id: row.map(|row| row.id.clone()),
            epoch: card.epoch,
            attempt: task.attempts.saturating_add(1),
            max_attempts: task.max_attempts,
            iteration: iteration.map(|n| n.saturating_add(1)),
            max_iterations: most.map(|n| n.saturating_add(1)),
            agent: row.map(|row| row.agent.clone()).or(activity.and_then(|a| a.agent.clone())),
            started_at: card.claimed_at,
            last_event_at: last_event(activity.map(|a| a.at), row, step.and_then(|s| s.timestamp)),
            activity: activity.and_then(|a| a.line.clone()),
            lease_expires_at: card.lease_expires_at,
            landing: card.landing,
            wake_at: row.and_then(|row| row.wake_at),
            progress: step.map(|step| Progress {
                step: step.step,
                total: step.total,
                description: step.description.clone(),
            }),
            spending: row.map(|row| Spending::of([row])).unwrap_or_default(),
        })
    }

    /// Returns the entry of an objective that a process drives.
    pub(super) fn of_objective(run: &Run, record: &RunHistory, seen: &ActivityLog) -> Option<Self> {
        let title = run.objective.clone()?;
        let is_at_work = !run.status.is_over() && record.is_driven(run);
        if !is_at_work || run.status == RunStatus::WaitingForHuman {
            return None;
        }
        let activity = seen.alone();
        Some(Self {
            worker: None,
            state: WorkerCondition::Working,
            task_id: None,
            title,
            run_id: Some(run.id.clone()),
            epoch: None,
            attempt: 1,
            max_attempts: 1,
            iteration: Some(run.iteration_count.saturating_add(1)),
            max_iterations: Some(run.limits.max_iterations.saturating_add(1)),
            agent: Some(run.agent.clone()),
            started_at: Some(run.created_at),
            last_event_at: last_event(activity.map(|a| a.at), Some(run), None),
            activity: activity.and_then(|a| a.line.clone()),
            lease_expires_at: None,
            landing: None,
            wake_at: run.wake_at,
            progress: None,
            spending: Spending::of([run]),
        })
    }
}

/// Returns the latest sign of life that is known.
fn last_event(
    seen: Option<Timestamp>,
    row: Option<&Run>,
    step: Option<Timestamp>,
) -> Option<Timestamp> {
    let seen = seen.filter(|at| *at > Timestamp::default());
    [seen, row.map(|row| row.updated_at), step].into_iter().flatten().max()
}
