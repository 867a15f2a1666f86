//! The summary of a run.

use harness_core::{
    Run, RunId, Stats, TaskId, Timestamp,
    ledger::Head,
    run::{RunStatus, StopReason},
};
use serde::Serialize;

use super::{NextStep, RunHistory};

/// A run and its state.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the columns of the database of runs; PROTOCOL.md describes them")]
pub struct RunSummary {
    pub run_id: RunId,
    pub parent_run_id: Option<RunId>,
    pub status: RunStatus,
    pub stop_reason: Option<StopReason>,
    pub objective: Option<String>,
    pub task_id: Option<TaskId>,
    pub agent: String,
    pub iteration_count: u32,
    pub max_iterations: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
    pub max_cost_usd: Option<f64>,
    pub max_tokens: Option<u64>,
    pub max_duration_seconds: Option<u64>,
    pub deadline: Option<Timestamp>,
    pub wake_at: Option<Timestamp>,
    /// Whether a process drives it. An attempt is driven by the process of its parent.
    pub driven: bool,
    /// Its current activity.
    pub condition: RunCondition,
    /// The command that resumes it; `None` while it works and when it has succeeded.
    pub next: Option<NextStep>,
}

/// The current activity of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunCondition {
    /// An agent works, or is about to.
    Working,
    /// It waits for an answer.
    AsksPerson,
    /// It waits until a usage limit ends.
    WaitsForLimit,
    /// Its process was killed.
    CutOff,
    /// It has ended.
    Over,
}

impl RunCondition {
    fn of(run: &Run, record: &RunHistory) -> Self {
        match run.status {
            status if status.is_over() => Self::Over,
            _ if !record.is_driven(run) => Self::CutOff,
            RunStatus::WaitingForHuman => Self::AsksPerson,
            _ if run.wake_at.is_some() => Self::WaitsForLimit,
            _ => Self::Working,
        }
    }
}

impl RunSummary {
    /// Returns the summary of `run`, which is one of `record`.
    pub fn of(run: &Run, record: &RunHistory) -> Self {
        let condition = RunCondition::of(run, record);
        let next = match condition {
            RunCondition::Working => None,
            RunCondition::AsksPerson => Some(NextStep::Questions),
            RunCondition::WaitsForLimit => Some(NextStep::Kick),
            RunCondition::CutOff | RunCondition::Over => record.resume(run),
        };
        Self {
            run_id: run.id.clone(),
            parent_run_id: run.parent.clone(),
            status: run.status,
            stop_reason: run.stop_reason,
            objective: run.objective.clone(),
            task_id: run.task.clone(),
            agent: run.agent.clone(),
            iteration_count: run.iteration_count,
            max_iterations: run.limits.max_iterations,
            created_at: run.created_at,
            updated_at: run.updated_at,
            input_tokens: run.usage.input_tokens,
            output_tokens: run.usage.output_tokens,
            cost_usd: run.usage.cost_usd,
            max_cost_usd: run.limits.max_cost_usd,
            max_tokens: run.limits.max_tokens,
            max_duration_seconds: run.limits.max_duration_seconds,
            deadline: run.deadline,
            wake_at: run.wake_at,
            driven: record.is_driven(run),
            condition,
            next,
        }
    }

    /// Replaces the next step of a run that stopped at a task without a check, because it would stop
    /// there again. The row has only the reason `config`. A run that a dirty work tree stopped began
    /// no session, and one that an attempt stopped left a claim.
    pub(super) fn stopped_at_no_check(
        self,
        head: &Head,
        stats: &Stats,
        unchecked: impl FnOnce() -> Option<TaskId>,
    ) -> Self {
        let is_config = self.objective.is_none() && self.stop_reason == Some(StopReason::Config);
        let had_session = head.last_session.is_some_and(|end| end >= self.created_at);
        if !is_config || !had_session || stats.in_progress > 0 {
            return self;
        }
        match unchecked() {
            Some(task) => Self { next: Some(NextStep::SetCheck(task)), ..self },
            None => self,
        }
    }

    /// Returns the budget that is used up, as text.
    pub(super) fn used_up(&self) -> String {
        let cost = self.cost_usd.unwrap_or_default();
        let tokens = self.input_tokens.saturating_add(self.output_tokens);
        match (self.max_cost_usd, self.max_tokens) {
            (Some(most), _) if cost >= most => format!("${cost:.2} of ${most:.2}"),
            (_, Some(most)) if tokens >= most => format!("{tokens} of {most} tokens"),
            _ => "its time is over".to_owned(),
        }
    }

    /// Returns how a run that no process drives has ended, for a sentence that begins with the run.
    #[must_use]
    pub fn ended(&self) -> String {
        match self.stop_reason.filter(|_| self.status.is_over()) {
            Some(reason) => format!("stopped ({reason})"),
            None => "was cut off".to_owned(),
        }
    }

    /// Returns the duration of the run until `now`, or until its end.
    #[must_use]
    pub fn seconds(&self, now: Timestamp) -> u64 {
        let end = if self.condition == RunCondition::Over { self.updated_at } else { now };
        end.since(self.created_at)
    }
}
