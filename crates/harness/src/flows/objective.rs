//! The lines of the log about the objective of a run: its beginning, its contexts, its check, its
//! end. Tasks have lines of their own.

use harness::core::{
    Command, Iteration, Run, Stop, check::Verdict, command::Note, fact::ObjectiveStep,
    machine::worker::environment_problem, run::StopReason,
};

use super::Tools;

/// Writes the lines for one run; nothing for an attempt at a task.
pub(super) struct ObjectiveLog<'a> {
    pub(super) tools: &'a Tools,
    pub(super) run: &'a Run,
}

impl ObjectiveLog<'_> {
    pub(super) async fn started(&self, contexts: &[Iteration]) {
        let Some(objective) = &self.run.objective else { return };
        let began = if contexts.is_empty() { "started" } else { "resumed" };
        let Run { id, agent, .. } = self.run;
        let message = format!("{began}: {objective} (run {id}, agent {agent})");
        self.note(ObjectiveStep::Started, message).await;
    }

    /// Writes the line of a context. `number` counts from 0.
    pub(super) async fn context(&self, number: u32) {
        let most = u64::from(self.run.limits.max_iterations) + 1;
        let message = format!("context {} of at most {most}", u64::from(number) + 1);
        self.note(ObjectiveStep::Context, message).await;
    }

    pub(super) async fn checked(&self, verdict: &Verdict) {
        let (step, message) = match verdict {
            Verdict::Passed => (ObjectiveStep::CheckPassed, "check passed".to_owned()),
            Verdict::Red { why } => (ObjectiveStep::CheckFailed, format!("check failed: {why}")),
            Verdict::TimedOut => {
                (ObjectiveStep::CheckFailed, "check failed: it took too long".to_owned())
            }
            // The line about the end of the run covers these.
            Verdict::Missing | Verdict::Cancelled => return,
        };
        self.note(step, message).await;
    }

    pub(super) async fn ended(&self, stop: &Stop) {
        if let Some(problem) =
            environment_problem(stop, None).filter(|_| self.run.objective.is_some())
        {
            self.commit(problem).await;
        }
        let words = stop.words().map(|words| format!(": {words}")).unwrap_or_default();
        let (step, message) = match stop.reason {
            StopReason::Complete => (ObjectiveStep::Reached, format!("reached{words}")),
            reason => (ObjectiveStep::Stopped, format!("stopped ({reason}){words}")),
        };
        self.note(step, message).await;
    }

    /// Writes a line. A failure to write does not change the run.
    async fn note(&self, step: ObjectiveStep, message: String) {
        if self.run.objective.is_none() {
            return;
        }
        let message = self.tools.redactor.text(&message).into_owned();
        self.commit(Command::Note(Note::Objective { run: self.run.id.clone(), step, message }))
            .await;
    }

    async fn commit(&self, command: Command) {
        if let Err(why) = self.tools.commit(command).await {
            tracing::warn!(%why, "the log lacks a line about the objective");
        }
    }
}
