//! What waits, with the reason and the command that ends the wait.

use harness_core::{
    Ledger, RunId, Standing, Task, TaskId, Timestamp,
    task::{FailureCause, Status},
};
use serde::Serialize;

use super::{NextStep, RunSummary, TaskDetail, TaskSurroundings, WorkingEntry};

/// Something that waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WaitEntry {
    /// What it waits for.
    pub kind: WaitKind,
    /// The task; `None` for a run.
    pub task_id: Option<String>,
    /// The run, if one waits.
    pub run_id: Option<RunId>,
    /// The title of the task, or the objective of the run.
    pub title: String,
    /// The reason, as `harness why` gives it.
    pub why: String,
    /// The end of the wait, if it is known.
    pub until: Option<Timestamp>,
    /// The next step for a person.
    pub next: NextStep,
}

/// What something waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitKind {
    /// The end of a usage limit.
    Limit,
    /// Its turn to land.
    Landing,
    /// The gate or the approval of a phase.
    Gate,
    /// A worker with the right labels.
    Labels,
    /// A person: its claim was left, or it cannot be worked on.
    Person,
    /// The end of a pause.
    Pause,
    /// Its turn: it is next, or ready.
    Turn,
    /// Other tasks.
    Dependency,
}

impl WaitEntry {
    /// Returns the wait of a run for a usage limit.
    pub(super) fn of_limit(entry: &WorkingEntry, now: Timestamp) -> Option<Self> {
        let until = entry.wake_at.filter(|until| *until > now)?;
        Some(Self {
            kind: WaitKind::Limit,
            task_id: entry.task_id.clone(),
            run_id: entry.run_id.clone(),
            title: entry.title.clone(),
            why: format!("a usage limit of {}", entry.agent.as_deref().unwrap_or("the agent")),
            until: Some(until),
            next: NextStep::Kick,
        })
    }

    /// Returns the wait of a result for its turn to land. The first one in the line does not wait.
    pub(super) fn of_landing(entry: &WorkingEntry) -> Option<Self> {
        let place = entry.landing.filter(|place| *place > 1)?;
        let task = TaskId::parse(entry.task_id.as_deref()?).ok()?;
        Some(Self {
            kind: WaitKind::Landing,
            task_id: entry.task_id.clone(),
            run_id: entry.run_id.clone(),
            title: entry.title.clone(),
            why: format!("place {place} in the line to land"),
            until: None,
            next: NextStep::Why(task),
        })
    }

    /// Returns the wait of a task that nobody works on.
    pub(super) fn of_task(
        ledger: &Ledger,
        task: &Task,
        around: &TaskSurroundings<'_>,
        now: Timestamp,
    ) -> Option<Self> {
        if !matches!(task.status(), Status::Pending | Status::Failed) {
            return None;
        }
        let standing = Standing::of(ledger, task);
        let kind = match &standing {
            // One that failed by itself is among what needs a person.
            Standing::Failed if failed_before(task).is_some() => WaitKind::Person,
            Standing::Completed | Standing::Failed | Standing::Claimed { .. } => return None,
            Standing::Next | Standing::Ready if task.check().is_none() => WaitKind::Person,
            Standing::Next | Standing::Ready if around.paused_at.is_some() => WaitKind::Pause,
            Standing::Next | Standing::Ready => WaitKind::Turn,
            Standing::Requires { .. } => WaitKind::Labels,
            Standing::Reserved { .. } | Standing::Waiting { .. } => WaitKind::Dependency,
            Standing::Blocked { .. } | Standing::Dangling { .. } | Standing::Cyclic => {
                WaitKind::Person
            }
            Standing::Phase { .. } => WaitKind::Gate,
        };
        let detail = TaskDetail::of(task, standing, around, now);
        Some(Self {
            kind,
            task_id: Some(task.id.to_string()),
            run_id: None,
            title: task.title.clone(),
            why: why(&detail, kind),
            until: None,
            next: detail.next,
        })
    }
}

/// Returns the task because of which this one has failed without an attempt of its own.
pub(super) fn failed_before(task: &Task) -> Option<&TaskId> {
    match task.failure().map(|failure| &failure.cause) {
        Some(FailureCause::Dependency(before)) if task.failed_for_good() => Some(before),
        _ => None,
    }
}

fn why(detail: &TaskDetail<'_>, kind: WaitKind) -> String {
    let tried = match detail.task.attempts {
        0 => String::new(),
        ended => format!(", after {ended} of {} attempts", detail.task.max_attempts),
    };
    match (kind, &detail.standing) {
        (WaitKind::Pause, _) => "claiming is paused".to_owned(),
        (WaitKind::Person, Standing::Next | Standing::Ready) => {
            "has no check, so it cannot be finished".to_owned()
        }
        (_, Standing::Requires { labels }) => {
            let labels = labels.join(", ");
            match detail.able.as_deref().unwrap_or_default() {
                [] => format!("no worker has {labels}"),
                [one, ..] => format!("for {one}, which has {labels}"),
            }
        }
        (_, Standing::Failed) => {
            let before = failed_before(detail.task).map_or("a task", |id| id.as_str());
            format!("failed because of {before}")
        }
        (_, Standing::Next) => format!("next{tried}"),
        (_, Standing::Ready) => format!("ready{tried}"),
        (_, standing) => format!("{standing}{tried}"),
    }
}

/// Returns the wait of a run that no task explains: an objective.
pub(super) fn of_run(run: &RunSummary, now: Timestamp) -> Option<WaitEntry> {
    let until = run.wake_at.filter(|until| *until > now && run.driven)?;
    let title = run.objective.clone()?;
    Some(WaitEntry {
        kind: WaitKind::Limit,
        task_id: None,
        run_id: Some(run.run_id.clone()),
        title,
        why: format!("a usage limit of {}", run.agent),
        until: Some(until),
        next: NextStep::Kick,
    })
}
