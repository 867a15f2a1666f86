//! The results of a run while this process watched it, for the summary at its end.

use harness::{
    Event,
    core::{CommitId, Fact, TaskId},
};

#[derive(Debug, Default)]
pub(super) struct Account {
    /// The tasks that were completed, with their commits, in order.
    pub(super) completed: Vec<(TaskId, Option<CommitId>)>,
    /// Attempts that failed and were rolled back or tried again.
    pub(super) failed_attempts: u32,
    /// Whether the run was ended with `harness abort`, perhaps with a reason.
    pub(super) aborted: Option<Option<String>>,
}

impl Account {
    pub(super) fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Completed { task, commit, .. } => {
                self.completed.push((task.clone(), commit.clone()));
            }
            Fact::Failed { .. } => self.failed_attempts += 1,
            _ => {}
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        if let Event::SessionAbort { reason } = event {
            self.aborted = Some(reason.clone());
        }
    }
}
