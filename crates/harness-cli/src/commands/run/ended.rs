//! How a run ended: for the row, for programs and for people.

use harness::core::{
    Ledger, Run, Stats,
    machine::{iterate, work::Stopped},
    run::StopReason,
};
use serde_json::{Value, json};

use crate::{exit::ExitCode, failure::Failure};

/// What a run came to.
pub(super) struct Ended {
    pub(super) reason: StopReason,
    /// For a person, where something has to be said.
    failure: Option<Failure>,
    /// Work is left; said without an error.
    remark: Option<String>,
    /// Something has to be looked at, although the run came to its end.
    alerted: bool,
}

impl Ended {
    pub(super) fn of_ledger(stopped: &Stopped) -> Self {
        let reason = match stopped {
            Stopped::Complete | Stopped::Alerted => StopReason::Complete,
            Stopped::InProgress(_) => StopReason::Crashed,
            Stopped::Once => StopReason::Once,
            Stopped::MaxSessions => StopReason::MaxSessions,
            Stopped::Limit(_) => StopReason::Limit,
            Stopped::Budget(_) => StopReason::Budget,
            Stopped::Gate { .. } => StopReason::Gate,
            Stopped::Interrupted => StopReason::Cancelled,
            Stopped::EnvSetup(_) => StopReason::EnvSetup,
            Stopped::Client { .. } | Stopped::Config(_) | Stopped::Dirty(_) => StopReason::Config,
        };
        let remark = match stopped {
            Stopped::Limit(why) | Stopped::Budget(why) => Some(why.clone()),
            Stopped::Gate { phase, why } => Some(format!("the gate of {phase} is closed: {why}")),
            _ => None,
        };
        Self { reason, failure: failure(stopped), remark, alerted: *stopped == Stopped::Alerted }
    }

    pub(super) fn of_objective(outcome: iterate::Outcome) -> Self {
        let iterate::Outcome { reason, detail, .. } = outcome;
        let (failure, remark) = match reason {
            StopReason::Complete | StopReason::Cancelled => (None, None),
            StopReason::Config => (Some(Failure::config(detail)), None),
            StopReason::EnvSetup => (Some(not_ready(&detail)), None),
            StopReason::Crashed => (Some(Failure::error(detail)), None),
            _ => (None, Some(detail)),
        };
        Self { reason, failure, remark, alerted: false }
    }

    /// The flow itself failed.
    pub(super) fn broken(failure: Failure) -> Self {
        Self { reason: StopReason::Crashed, failure: Some(failure), remark: None, alerted: false }
    }

    pub(super) fn failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// An alert was raised while the run was under way.
    pub(super) fn alert(&mut self) {
        self.alerted = true;
    }

    /// What is said of a run that can be taken up again, or that has to be looked at.
    pub(super) fn words(&self, run: &Run) -> Option<String> {
        if self.alerted && self.reason == StopReason::Complete {
            let words = "finished, but something has to be looked at: `harness status` shows what";
            return Some(words.to_owned());
        }
        let why = self.remark.as_ref()?;
        let (reason, id) = (self.reason, &run.id);
        Some(format!("stopped ({reason}): {why}; go on with `harness run --resume --run-id {id}`"))
    }

    pub(super) fn code(&self, ledger: &Ledger, run: &Run) -> ExitCode {
        if let Some(failure) = &self.failure {
            return failure.kind.exit_code();
        }
        let over_ledger = run.objective.is_none();
        match self.reason {
            StopReason::Complete if over_ledger && ledger.tasks().any(|t| t.failed_for_good()) => {
                ExitCode::SomeFailed
            }
            StopReason::Complete if self.alerted => ExitCode::SomeFailed,
            StopReason::Complete => ExitCode::Done,
            StopReason::Once if self.alerted && !ledger.tasks().any(|t| t.unfinished()) => {
                ExitCode::SomeFailed
            }
            StopReason::Once if !ledger.tasks().any(|t| t.unfinished()) => ExitCode::Done,
            StopReason::Cancelled => ExitCode::Interrupted,
            StopReason::Config => ExitCode::Config,
            StopReason::EnvSetup | StopReason::Crashed => ExitCode::Error,
            StopReason::MaxIterations
            | StopReason::Budget
            | StopReason::Stalled
            | StopReason::Limit
            | StopReason::MaxSessions
            | StopReason::Once
            | StopReason::Gate => ExitCode::WorkLeft,
        }
    }

    /// The document of `--json`.
    pub(super) fn document(&self, ledger: &Ledger, run: &Run) -> Value {
        let stats = Stats::of(ledger);
        json!({
            "outcome": self.reason.status(), "stop_reason": self.reason,
            "exit_code": self.code(ledger, run) as u8, "run_id": run.id,
            "sessions": ledger.head().session_count,
            "iterations": run.iteration_count,
            "counts": { "total": stats.total, "completed": stats.completed,
                "failed": stats.failed, "pending": stats.pending,
                "in_progress": stats.in_progress, "blocked": stats.blocked },
            "input_tokens": run.usage.input_tokens, "output_tokens": run.usage.output_tokens,
            "cost_usd": run.usage.cost_usd,
        })
    }

    /// What `notify` is told.
    pub(super) fn event(&self, ledger: &Ledger, run: &Run) -> Value {
        let kind = match self.reason {
            StopReason::Complete | StopReason::Once => "done",
            StopReason::Limit => "limit",
            StopReason::Budget => "budget",
            _ => "stuck",
        };
        let mut event = self.document(ledger, run);
        event["event"] = kind.into();
        event
    }
}

fn not_ready(why: &str) -> Failure {
    Failure::error(format!("the environment is not ready: {why}"))
        .hint("mend it and run again: nothing is lost, and no attempt was counted")
}

/// What a person has to know about an end that is not the work's own.
fn failure(stopped: &Stopped) -> Option<Failure> {
    match stopped {
        Stopped::Complete
        | Stopped::Alerted
        | Stopped::Once
        | Stopped::MaxSessions
        | Stopped::Interrupted
        | Stopped::Limit(_)
        | Stopped::Budget(_)
        | Stopped::Gate { .. } => None,
        Stopped::InProgress(task) => Some(
            Failure::error(format!("task {task} is in progress, and no attempt of this run is"))
                .hint("run again: what is left of that attempt is recovered first"),
        ),
        Stopped::EnvSetup(why) => Some(not_ready(why)),
        Stopped::Config(why) => Some(Failure::config(why.clone())),
        Stopped::Client { task, worker } => Some(
            Failure::error(format!("task {task} is claimed by {worker}"))
                .hint(format!("wait for it, or take it back: `harness task release {task}`")),
        ),
        Stopped::Dirty(files) => {
            let shown: Vec<&str> = files.iter().take(10).map(String::as_str).collect();
            let more = files.len().saturating_sub(shown.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let files = shown.join(", ");
            let what = format!("the work tree has changes of yours: {files}{more}");
            let why = "commit or stash them first: a rollback could not tell them from the agent's";
            let or = "--allow-dirty sets them aside and puts them back at the end";
            Some(Failure::config(what).hint(why).hint(or))
        }
    }
}
