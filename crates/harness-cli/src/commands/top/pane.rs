//! What the detail pane shows: a task with its attempts, its transcript, a diff.

use harness::view::{AttemptStory, TaskStory};
use harness_core::{CommitId, TaskId};

/// A page of the detail pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Overview,
    Transcript,
    Check,
    Diff,
    Receipt,
}

impl Tab {
    pub(super) const ALL: [Self; 5] =
        [Self::Overview, Self::Transcript, Self::Check, Self::Diff, Self::Receipt];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Transcript => "Transcript",
            Self::Check => "Check",
            Self::Diff => "Diff",
            Self::Receipt => "Receipt",
        }
    }

    /// Returns the tab that is `by` places to the right.
    pub(super) fn moved(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|tab| *tab == self).unwrap_or(0);
        let count = Self::ALL.len();
        Self::ALL[(at + count).saturating_add_signed(by) % count]
    }
}

/// A task, as the pane shows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TaskPane {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) status: &'static str,
    pub(super) why: String,
    pub(super) next: String,
    pub(super) instructions: Option<String>,
    pub(super) check: Option<String>,
    pub(super) depends_on: Vec<String>,
    pub(super) errors: Vec<String>,
    pub(super) check_output: Option<String>,
    pub(super) ended_attempts: u32,
    pub(super) max_attempts: u32,
    pub(super) attempts: Vec<AttemptStory>,
}

impl From<&TaskStory<'_>> for TaskPane {
    fn from(story: &TaskStory<'_>) -> Self {
        Self {
            id: story.task_id.clone(),
            title: story.title.clone(),
            status: story.status,
            why: story.why.clone(),
            next: story.detail.next.to_string(),
            instructions: story.instructions.clone(),
            check: story.check.clone(),
            depends_on: story.depends_on.clone(),
            errors: story.errors.clone(),
            check_output: story.check_output.clone(),
            ended_attempts: story.ended_attempts,
            max_attempts: story.max_attempts,
            attempts: story.attempts.clone(),
        }
    }
}

/// What the pane wants to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) task: Option<TaskId>,
    /// The loop whose transcript is shown: `TASK.EPOCH`, or the id of a run.
    pub(super) transcript: Option<String>,
    pub(super) diff: Option<(CommitId, CommitId)>,
}

/// What was read for the pane.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Detail {
    pub(super) wanted: Wanted,
    pub(super) task: Option<TaskPane>,
    /// The lines of the transcript, with control characters visible.
    pub(super) transcript: Vec<String>,
    /// The diff, or why there is none.
    pub(super) diff: Option<Result<String, String>>,
}

impl Detail {
    /// Returns the attempt that is `back` before the newest one.
    pub(super) fn attempt(&self, back: usize) -> Option<&AttemptStory> {
        let attempts = &self.task.as_ref()?.attempts;
        attempts.get(attempts.len().checked_sub(back + 1)?)
    }
}
