//! The report about a run that is over: for people, for programs and as an exit code.

use harness::core::{
    Ledger, Run, Stats, Stop, Task, machine::scope::TaskScope, run::StopReason, stop::StopDetail,
};
use serde_json::{Value, json};

use super::pull_request::Proposed;
use crate::{exit::ExitCode, failure::Failure};

/// The report about a run that is over.
pub(super) struct RunReport<'a> {
    pub(super) stop: &'a Stop,
    /// The failure of the flow itself. The stop is [`StopReason::Crashed`] then.
    pub(super) broken: Option<&'a Failure>,
    pub(super) ledger: &'a Ledger,
    /// The tasks that it worked on.
    pub(super) scope: &'a TaskScope,
    pub(super) run: &'a Run,
    /// The pull request with its results.
    pub(super) proposal: Option<&'a Proposed>,
}

impl RunReport<'_> {
    /// Returns the exit code of the run.
    pub(super) fn code(&self) -> ExitCode {
        if let Some(failure) = self.broken {
            return failure.kind.exit_code();
        }
        let alerted = self.stop.is_alerted();
        let over_ledger = self.run.objective.is_none();
        match self.stop.reason {
            StopReason::Complete if over_ledger && self.tasks().any(Task::failed_for_good) => {
                ExitCode::SomeFailed
            }
            StopReason::Complete if alerted => ExitCode::SomeFailed,
            StopReason::Complete => ExitCode::Done,
            StopReason::Once if self.tasks().any(Task::unfinished) => ExitCode::WorkLeft,
            StopReason::Once if alerted => ExitCode::SomeFailed,
            StopReason::Once => ExitCode::Done,
            StopReason::Cancelled => ExitCode::Interrupted,
            // Another worker is active here, so nothing has to be fixed.
            StopReason::Config if matches!(self.stop.detail, StopDetail::Client(_)) => {
                ExitCode::Error
            }
            StopReason::Config => ExitCode::Config,
            StopReason::EnvSetup | StopReason::Crashed => ExitCode::Error,
            StopReason::MaxIterations
            | StopReason::Budget
            | StopReason::Stalled
            | StopReason::Limit
            | StopReason::MaxSessions
            | StopReason::Gate => ExitCode::WorkLeft,
        }
    }

    /// The tasks that the run worked on.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.ledger.tasks().filter(|task| self.scope.contains(&task.id))
    }

    /// The document of `--json`.
    pub(super) fn document(&self) -> Value {
        let (ledger, run, reason) = (self.ledger, self.run, self.stop.reason);
        let stats = Stats::of(ledger);
        json!({
            "outcome": reason.status(), "stop_reason": reason,
            "exit_code": self.code() as u8, "run_id": run.id,
            "sessions": ledger.head().session_count,
            "iterations": run.iteration_count,
            "counts": { "total": stats.total, "completed": stats.completed,
                "failed": stats.failed, "pending": stats.pending,
                "in_progress": stats.in_progress, "blocked": stats.blocked },
            "input_tokens": run.usage.input_tokens, "output_tokens": run.usage.output_tokens,
            "cost_usd": run.usage.cost_usd,
            "pull_request": self.proposal.and_then(Proposed::url),
        })
    }

    /// Returns the event for `notify`.
    pub(super) fn event(&self) -> Value {
        let kind = match self.stop.reason {
            StopReason::Complete | StopReason::Once => "done",
            StopReason::Limit => "limit",
            StopReason::Budget => "budget",
            _ => "stuck",
        };
        let mut event = self.document();
        event["event"] = kind.into();
        event
    }
}

/// Returns why it stopped, for a stop that is no error.
pub(super) fn remark(stop: &Stop) -> Option<String> {
    match stop.reason {
        StopReason::Complete
        | StopReason::Cancelled
        | StopReason::Config
        | StopReason::EnvSetup
        | StopReason::Crashed => None,
        StopReason::MaxIterations
        | StopReason::Budget
        | StopReason::Stalled
        | StopReason::Limit
        | StopReason::MaxSessions
        | StopReason::Once
        | StopReason::Gate => match &stop.detail {
            StopDetail::Gate { phase, why } => {
                Some(format!("the gate of {phase} is closed: {why}"))
            }
            StopDetail::Nothing
            | StopDetail::Words(_)
            | StopDetail::Alerted
            | StopDetail::OutOfTime(_)
            | StopDetail::Dirty(_)
            | StopDetail::Client(_)
            | StopDetail::NoCheck
            | StopDetail::Unattended => stop.words().map(str::to_owned),
        },
    }
}

/// Returns the error of a stop that is not the end of the work.
pub(super) fn failure(stop: &Stop) -> Option<Failure> {
    let words = stop.words().unwrap_or_default();
    let task = stop.task.as_ref().map(ToString::to_string).unwrap_or_default();
    match (stop.reason, &stop.detail) {
        (
            StopReason::Complete
            | StopReason::Once
            | StopReason::MaxSessions
            | StopReason::MaxIterations
            | StopReason::Stalled
            | StopReason::Cancelled
            | StopReason::Limit
            | StopReason::Budget
            | StopReason::Gate,
            _,
        ) => None,
        (StopReason::Crashed, StopDetail::Unattended) => Some(
            Failure::error(format!("task {task} is in progress, and no attempt of this run is"))
                .hint("run again: that attempt is recovered first"),
        ),
        (StopReason::Crashed, _) => Some(Failure::error(words)),
        (StopReason::EnvSetup, _) => Some(
            Failure::error(format!("the environment is not ready: {words}"))
                .hint("fix it and run again; nothing is lost and no attempt was counted"),
        ),
        (StopReason::Config, StopDetail::Client(worker)) => Some(
            Failure::error(format!("task {task} is claimed by {worker}"))
                .hint(format!("wait for it, or take it back: `harness task release {task}`")),
        ),
        (StopReason::Config, StopDetail::Dirty(files)) => Some(dirty(files)),
        (StopReason::Config, StopDetail::NoCheck) => Some(
            Failure::config(format!("{task}: Missing validation.command"))
                .hint(format!("give it a check: `harness task edit {task} --validate COMMAND`")),
        ),
        (StopReason::Config, _) => Some(Failure::config(words)),
    }
}

fn dirty(files: &[String]) -> Failure {
    let shown: Vec<&str> = files.iter().take(10).map(String::as_str).collect();
    let more = files.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let files = shown.join(", ");
    let what = format!("the work tree has uncommitted changes: {files}{more}");
    let why = "commit or stash them first; a rollback could not tell them from the agent's";
    let or = "or pass --allow-dirty to set them aside and restore them at the end";
    Failure::config(what).hint(why).hint(or)
}

#[cfg(test)]
mod tests {
    use harness::core::{RunId, Timestamp, WorkerId, ledger::Head};

    use super::*;

    fn code(stop: &Stop) -> ExitCode {
        let ledger = Ledger::new(Head::new(Timestamp::default()), Vec::new()).unwrap();
        let run = Run::queued(RunId::of_bits(1), Timestamp::default());
        let scope = &TaskScope::Ledger;
        let report =
            RunReport { stop, broken: None, ledger: &ledger, scope, run: &run, proposal: None };
        report.code()
    }

    #[test]
    fn every_stop_has_one_exit_code_and_its_error_agrees() {
        use StopReason as R;
        let with = |reason, detail| Stop { detail, ..Stop::because(reason) };
        let gate = StopDetail::Gate { phase: "p".into(), why: "w".into() };
        let client = StopDetail::Client(WorkerId::recorded("w"));
        for (stop, expected) in [
            (Stop::because(R::Complete), ExitCode::Done),
            (Stop::alerted(), ExitCode::SomeFailed),
            (Stop::because(R::Once), ExitCode::Done),
            (with(R::Once, StopDetail::Alerted), ExitCode::SomeFailed),
            (Stop::because(R::MaxSessions), ExitCode::WorkLeft),
            (Stop::with_words(R::MaxIterations, "w"), ExitCode::WorkLeft),
            (Stop::with_words(R::Stalled, "w"), ExitCode::WorkLeft),
            (Stop::with_words(R::Limit, "w"), ExitCode::WorkLeft),
            (Stop::with_words(R::Budget, "w"), ExitCode::WorkLeft),
            (with(R::Gate, gate), ExitCode::WorkLeft),
            (Stop::interrupted(), ExitCode::Interrupted),
            (Stop::with_words(R::EnvSetup, "w"), ExitCode::Error),
            (Stop::with_words(R::Crashed, "w"), ExitCode::Error),
            (with(R::Crashed, StopDetail::Unattended), ExitCode::Error),
            (with(R::Config, client), ExitCode::Error),
            (with(R::Config, StopDetail::Dirty(vec!["a".into()])), ExitCode::Config),
            (Stop::config("w"), ExitCode::Config),
        ] {
            assert_eq!(code(&stop), expected, "{stop}");
            let failure = failure(&stop);
            assert!(failure.is_none_or(|failure| failure.kind.exit_code() == expected), "{stop}");
        }
    }
}
