//! The strictness of judging.

use crate::{Task, protect::Protected};

/// The strictness of judging. The default is the work tree, after the work, without protected
/// files.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// `true` to judge a clean checkout of the commit. A task may override it.
    pub clean: bool,
    /// `true` to run the check before the first attempt too. A task may override it.
    pub baseline: bool,
    /// `true` to commit before the check, so that what the repository's hooks make of the work is judged.
    pub commit_first: bool,
    /// The files that the work must not touch. A task may add to them.
    pub protected: Protected,
}

impl Rules {
    /// Applies the settings of the task itself, which take precedence.
    #[must_use]
    pub fn of(self, task: &Task) -> Self {
        Self {
            clean: task.validation.clean.unwrap_or(self.clean),
            baseline: task.validation.baseline.unwrap_or(self.baseline),
            commit_first: self.commit_first,
            protected: self.protected.of_task(task),
        }
    }
}
