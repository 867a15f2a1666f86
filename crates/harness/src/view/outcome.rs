//! What became of an attempt at a task.

use harness_core::{Task, run::RunStatus, task::Status};
use serde::Serialize;

/// What became of an attempt. The row of an attempt says only how its agent ended; whether the check
/// passed is in the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// It goes on: the agent works, or its result is judged or waits to land.
    Working,
    /// Its agent waits for the answer of a person.
    Asking,
    /// Its result was accepted.
    Completed,
    /// Its result was not accepted.
    Failed,
    /// It was stopped, and may go on.
    Stopped,
}

/// The place of an attempt among those of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptPlace {
    /// It is the newest one.
    Newest,
    /// Others came after it.
    Earlier,
}

impl AttemptOutcome {
    /// Returns the outcome of an attempt whose row has `status`. `task` is `None` if it was removed.
    pub fn of(status: RunStatus, place: AttemptPlace, task: Option<&Task>) -> Self {
        let now = task.map(Task::status);
        match (status, place, now) {
            (RunStatus::WaitingForHuman, AttemptPlace::Newest, _) => Self::Asking,
            (
                RunStatus::Queued | RunStatus::Running,
                AttemptPlace::Newest,
                Some(Status::InProgress),
            ) => Self::Working,
            (RunStatus::Succeeded, AttemptPlace::Newest, Some(Status::InProgress)) => Self::Working,
            (RunStatus::Succeeded, AttemptPlace::Newest, Some(Status::Completed) | None) => {
                Self::Completed
            }
            (RunStatus::Failed | RunStatus::Succeeded, _, _) => Self::Failed,
            (_, AttemptPlace::Newest, Some(Status::Completed)) => Self::Completed,
            (_, _, Some(Status::Failed)) | (_, AttemptPlace::Earlier, _) => Self::Failed,
            (
                RunStatus::Queued | RunStatus::Running | RunStatus::Cancelled | RunStatus::Stopped,
                AttemptPlace::Newest,
                _,
            ) => Self::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use harness_core::format::read_ledger;

    use super::*;

    #[test]
    fn the_task_decides_what_became_of_an_attempt() {
        use AttemptOutcome::{Completed, Failed, Stopped, Working};
        use AttemptPlace::{Earlier, Newest};
        for (row, place, task, expected) in [
            (RunStatus::Running, Newest, "in_progress", Working),
            // The agent has ended, and its result is being judged.
            (RunStatus::Succeeded, Newest, "in_progress", Working),
            (RunStatus::Succeeded, Newest, "completed", Completed),
            // The agent kept its promise, and the check failed.
            (RunStatus::Succeeded, Newest, "failed", Failed),
            (RunStatus::Succeeded, Earlier, "completed", Failed),
            (RunStatus::Failed, Newest, "failed", Failed),
            (RunStatus::Stopped, Newest, "pending", Stopped),
            (RunStatus::Cancelled, Newest, "in_progress", Stopped),
            // It was adopted by a later session.
            (RunStatus::Stopped, Newest, "completed", Completed),
        ] {
            let text = format!(r#"{{"tasks":[{{"id":"a","status":"{task}"}}]}}"#);
            let ledger = read_ledger(text.as_bytes()).unwrap();
            let found = AttemptOutcome::of(row, place, ledger.tasks().next());
            assert_eq!(found, expected, "{row} {place:?} {task}");
        }
    }
}
