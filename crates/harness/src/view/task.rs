//! One task, with everything that is known about it.

use harness_core::{
    Epoch, Run, RunId, Standing, Task, Timestamp,
    run::{RunStatus, StopReason},
    task::{FailureCause, Status},
};
use serde::{Serialize, Serializer};

use super::{NextStep, QuestionCard, RunHistory, RunSummary, Spending, WorkerCard};
use crate::{flows::ClosedGate, protocol::QuestionView};

/// The state around a task besides the ledger.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TaskSurroundings<'a> {
    /// The rows of runs.
    pub record: &'a RunHistory,
    /// The open questions of the host.
    pub questions: &'a [QuestionView],
    /// The gate that was tried last, if it stayed closed.
    pub gate: Option<&'a ClosedGate>,
    /// The workers.
    pub workers: &'a [WorkerCard],
    /// The time since which nothing is claimed.
    pub paused_at: Option<Timestamp>,
}

impl<'a> TaskSurroundings<'a> {
    /// Creates surroundings with the rows of runs and nothing else.
    pub fn new(record: &'a RunHistory) -> Self {
        Self { record, questions: &[], gate: None, workers: &[], paused_at: None }
    }

    /// Returns the question of the agent that works on a task.
    fn asked_by(&self, task: &Task) -> Option<&'a QuestionView> {
        let asks = |question: &&QuestionView| question.task_id.as_deref() == Some(task.id.as_str());
        self.questions.iter().find(asks)
    }

    /// Returns the question that lets `phase` pass.
    fn approval(&self, phase: &str) -> Option<&'a QuestionView> {
        self.questions.iter().find(|question| question.phase.as_deref() == Some(phase))
    }
}

/// A task and its state.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TaskDetail<'a> {
    /// The task itself.
    #[serde(skip)]
    pub task: &'a Task,
    /// Whether it is next, and if not, the reason why it waits.
    #[serde(serialize_with = "name")]
    pub standing: Standing<'a>,
    /// The run that its claim belongs to, if no process drives that run any more.
    pub abandoned: Option<RunSummary>,
    /// The question that has to be answered before it can continue.
    pub question: Option<QuestionCard>,
    /// The gate that it waits for, if that was tried and stayed closed.
    pub gate: Option<&'a ClosedGate>,
    /// The worker that holds it.
    pub worker: Option<&'a WorkerCard>,
    /// The workers that are there and have the labels that it requires, if it requires some.
    pub able: Option<Vec<&'a str>>,
    /// The time since which it is not claimed although it could be; `None` if claiming is not paused.
    pub paused_at: Option<Timestamp>,
    /// Its attempts by runs, newest first.
    pub runs: Vec<AttemptSummary>,
    /// The cost of these attempts together.
    pub spending: Spending,
    /// The next step for a person.
    pub next: NextStep,
}

/// An attempt that a run made at a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AttemptSummary {
    /// The row of the attempt.
    pub run_id: RunId,
    /// The claim that it worked under.
    pub epoch: Option<Epoch>,
    /// The status of the row.
    pub status: RunStatus,
    /// The reason for its end.
    pub stop_reason: Option<StopReason>,
    /// The name of the agent.
    pub agent: String,
    /// The time at which it began.
    pub started_at: Timestamp,
    /// The cost of the attempt.
    #[serde(flatten)]
    pub spending: Spending,
    /// The transcripts of its agents, relative to the state root.
    pub transcripts: Vec<String>,
}

impl AttemptSummary {
    fn of(run: &Run, record: &RunHistory) -> Self {
        Self {
            run_id: run.id.clone(),
            epoch: run.epoch,
            status: run.status,
            stop_reason: run.stop_reason,
            agent: run.agent.clone(),
            started_at: run.created_at,
            spending: Spending::of([run]),
            transcripts: record.transcripts(&run.id),
        }
    }
}

impl<'a> TaskDetail<'a> {
    /// Returns the details of `task`, which has the state `standing` in its ledger.
    pub fn of(
        task: &'a Task,
        standing: Standing<'a>,
        around: &TaskSurroundings<'a>,
        now: Timestamp,
    ) -> Self {
        let record = around.record;
        let claimed = task.status() == Status::InProgress;
        let abandoned = record.abandoned(&task.id, task.epoch.filter(|_| claimed));
        let phase = match &standing {
            Standing::Phase { waits_for } => Some(*waits_for),
            _ => None,
        };
        let question = match phase {
            Some(phase) => around.approval(phase),
            None => around.asked_by(task).filter(|_| claimed),
        };
        let question = question.map(QuestionCard::from);
        let gate = around.gate.filter(|gate| phase == Some(&gate.phase));
        let runs = record.attempts(&task.id).map(|run| AttemptSummary::of(run, record));
        let is_open = matches!(standing, Standing::Next | Standing::Ready);
        let paused_at = around.paused_at.filter(|_| is_open && task.check().is_some());
        let next = match (&abandoned, &question) {
            _ if paused_at.is_some() => NextStep::ResumeClaiming,
            (Some(RunSummary { next: Some(next), .. }), _) => next.clone(),
            (None, Some(question)) => question.next.clone(),
            (Some(_) | None, _) => next_step(task, &standing, now),
        };
        let holds = |card: &&WorkerCard| card.task_id.as_deref() == Some(task.id.as_str());
        let worker = around.workers.iter().find(holds);
        let able = match &standing {
            Standing::Requires { labels } => {
                let able = around.workers.iter().filter(|card| card.has_labels(labels));
                Some(able.map(|card| card.id.as_str()).collect())
            }
            _ => None,
        };
        let (runs, spending) = (runs.collect(), record.spending_of(&task.id));
        Self {
            task,
            standing,
            abandoned,
            question,
            gate,
            worker,
            able,
            paused_at,
            runs,
            spending,
            next,
        }
    }

    /// Returns why the task needs a person to continue; `None` if the next session can continue it,
    /// or if nothing is left to do.
    #[must_use]
    pub fn waits_for_person(&self, now: Timestamp) -> Option<String> {
        let (task, standing) = (self.task, &self.standing);
        match standing {
            Standing::Completed
            | Standing::Failed
            | Standing::Waiting { .. }
            | Standing::Reserved { .. } => None,
            Standing::Blocked { .. } | Standing::Dangling { .. } | Standing::Cyclic => {
                Some(standing.to_string())
            }
            Standing::Phase { .. } => Some(standing.to_string()),
            Standing::Requires { .. } => {
                let nobody = self.able.as_ref().is_none_or(Vec::is_empty);
                nobody.then(|| format!("{standing}, and no worker has them"))
            }
            Standing::Claimed { .. } => match &self.abandoned {
                Some(run) => Some(format!("{standing}, whose run {}", run.ended())),
                None => task.lease_ran_out(now).then(|| format!("{standing}, whose lease ran out")),
            },
            Standing::Next | Standing::Ready => {
                let unchecked = task.check().is_none() && task.status() != Status::Completed;
                unchecked.then(|| "has no validation.command, so it cannot be finished".to_owned())
            }
        }
    }
}

fn name<S: Serializer>(standing: &Standing<'_>, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(standing.name())
}

/// Returns the next step for a person about a task, from the ledger alone.
fn next_step(task: &Task, standing: &Standing<'_>, now: Timestamp) -> NextStep {
    let id = || task.id.clone();
    match standing {
        Standing::Completed => NextStep::Verify(id()),
        Standing::Failed => match task.failure().map(|failure| &failure.cause) {
            Some(FailureCause::Dependency(before)) => NextStep::Why(before.clone()),
            Some(FailureCause::Graph) => NextStep::SetDependencies(id()),
            Some(FailureCause::Attempt | FailureCause::Lease) | None => NextStep::Retry(id()),
        },
        Standing::Blocked { by } | Standing::Reserved { by } => NextStep::Why((*by).clone()),
        Standing::Dangling { .. } | Standing::Cyclic => NextStep::SetDependencies(id()),
        Standing::Waiting { on } => match on.first() {
            Some(first) => NextStep::Why((*first).clone()),
            None => NextStep::Show(id()),
        },
        Standing::Claimed { .. } if task.lease_ran_out(now) => NextStep::Release(id()),
        Standing::Claimed { .. } => NextStep::Follow(id()),
        Standing::Phase { .. } => NextStep::Status,
        Standing::Next | Standing::Ready | Standing::Requires { .. } if task.check().is_none() => {
            NextStep::SetCheck(id())
        }
        Standing::Next | Standing::Ready => NextStep::Run,
        Standing::Requires { labels } => NextStep::RunWithLabels(labels.to_vec()),
    }
}
