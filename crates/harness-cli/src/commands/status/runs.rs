//! The runs that go on, or were cut off while they did.

use std::fmt;

use harness::store::{RunStore, is_gone};
use harness_core::{
    Run, RunId, TaskId, Timestamp,
    run::{RunStatus, StopReason},
};
use serde::Serialize;

use crate::{
    paint::{Paint, one_line},
    root::StateRoot,
    store::warn,
};

/// One of them, for programs.
#[derive(Serialize)]
pub(super) struct RunSeen {
    run_id: RunId,
    parent_run_id: Option<RunId>,
    status: RunStatus,
    stop_reason: Option<StopReason>,
    objective: Option<String>,
    task_id: Option<TaskId>,
    agent: String,
    iteration_count: u32,
    max_iterations: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: Option<f64>,
    max_cost_usd: Option<f64>,
    max_tokens: Option<u64>,
    deadline: Option<Timestamp>,
    wake_at: Option<Timestamp>,
    /// Whether a process drives it; an attempt is driven by its parent's.
    driven: bool,
}

/// A record that cannot be read is no reason not to show the rest.
pub(super) fn look(root: &StateRoot) -> Vec<RunSeen> {
    let live = RunStore::look(root.path()).and_then(|store| match store {
        Some(store) => store.live(),
        None => Ok(Vec::new()),
    });
    match live {
        Ok(runs) => {
            let driven = |run: &Run| run.lease.as_ref().is_some_and(|lease| !is_gone(&lease.owner));
            let at_work: Vec<RunId> =
                runs.iter().filter(|run| driven(run)).map(|run| run.id.clone()).collect();
            runs.into_iter().map(|run| RunSeen::of(run, &at_work)).collect()
        }
        Err(why) => {
            warn(&why.to_string());
            Vec::new()
        }
    }
}

impl RunSeen {
    fn of(run: Run, at_work: &[RunId]) -> Self {
        let driven = at_work.contains(run.parent.as_ref().unwrap_or(&run.id));
        Self {
            driven,
            run_id: run.id,
            parent_run_id: run.parent,
            status: run.status,
            stop_reason: run.stop_reason,
            objective: run.objective,
            task_id: run.task,
            agent: run.agent,
            iteration_count: run.iteration_count,
            max_iterations: run.limits.max_iterations,
            created_at: run.created_at,
            updated_at: run.updated_at,
            input_tokens: run.usage.input_tokens,
            output_tokens: run.usage.output_tokens,
            cost_usd: run.usage.cost_usd,
            max_cost_usd: run.limits.max_cost_usd,
            max_tokens: run.limits.max_tokens,
            deadline: run.deadline,
            wake_at: run.wake_at,
        }
    }

    /// One line, for people. An attempt that nobody drives is the ledger's to show.
    pub(super) fn line(&self, now: Timestamp, paint: Paint) -> Option<String> {
        if self.parent_run_id.is_some() && !self.driven {
            return None;
        }
        let what = match (&self.objective, &self.task_id) {
            (Some(objective), _) => {
                let text = one_line(objective).to_string();
                text.chars().take(60).collect()
            }
            (None, Some(task)) => task.to_string(),
            (None, None) => "the ledger".to_owned(),
        };
        let mut line = format!("{}: {}", paint.heading(format_args!("run")), what);
        if self.objective.is_some() || self.task_id.is_some() {
            line += &format!(", iteration {} of {}", self.iteration_count, self.max_iterations);
        }
        line += &format!(" ({}, {}{})", self.agent, Span(now.since(self.created_at)), self.spent());
        line += &match (self.driven, self.status, self.wake_at) {
            (false, _, wake_at) => {
                let waits = wake_at.filter(|until| *until > now);
                let waits = waits.map(|until| format!(", waits until {until}")).unwrap_or_default();
                format!(" — cut off{waits}: `harness run --resume --run-id {}`", self.run_id)
            }
            (true, RunStatus::WaitingForHuman, _) => {
                " — waits for a person: `harness questions`".to_owned()
            }
            (true, _, Some(until)) => {
                format!(" — waits for a usage limit until {until}: `harness kick` ends that")
            }
            (true, _, None) => String::new(),
        };
        Some(line)
    }

    fn spent(&self) -> String {
        let tokens = self.input_tokens.saturating_add(self.output_tokens);
        let mut text = String::new();
        if tokens > 0 {
            text += &format!(", {tokens}");
            text += &self.max_tokens.map(|most| format!(" of {most}")).unwrap_or_default();
            text += " tokens";
        }
        if let Some(cost) = self.cost_usd {
            text += &format!(", ${cost:.2}");
            text += &self.max_cost_usd.map(|most| format!(" of ${most:.2}")).unwrap_or_default();
        }
        text
    }
}

/// A length of time, roughly.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            seconds @ 0..60 => write!(f, "{seconds} s"),
            seconds @ 60..7200 => write!(f, "{} min", seconds / 60),
            seconds => write!(f, "{} h {} min", seconds / 3600, seconds % 3600 / 60),
        }
    }
}
