//! The worker for whom a task is chosen.

use crate::task::Task;

/// The worker for whom a task is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applicant<'a> {
    /// Without a role, tasks of every role are eligible; with one, the tasks of that role and those
    /// without a role are.
    pub role: Option<&'a str>,
    /// The labels, which must include all those that a task requires.
    pub labels: LabelSet<'a>,
}

/// The labels of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelSet<'a> {
    /// Every label that a task could require, for a look at all tasks.
    Every,
    /// These labels.
    Only(&'a [String]),
}

impl<'a> Applicant<'a> {
    /// A worker of no particular role without labels.
    pub const PLAIN: Self = Self { role: None, labels: LabelSet::Only(&[]) };
    /// A worker that every task is good for.
    pub const ANYBODY: Self = Self { role: None, labels: LabelSet::Every };

    /// Returns a worker of no particular role with these labels.
    pub const fn with_labels(labels: &'a [String]) -> Self {
        Self { role: None, labels: LabelSet::Only(labels) }
    }

    /// Returns whether the role and the labels are those that the task needs.
    pub fn suits(&self, task: &Task) -> bool {
        self.has_role(task.role.as_deref()) && self.has_labels(&task.requires)
    }

    pub(super) fn has_role(&self, of: Option<&str>) -> bool {
        self.role.is_none_or(|role| of.is_none_or(|of| of == role))
    }

    pub(super) fn has_labels(&self, required: &[String]) -> bool {
        match self.labels {
            LabelSet::Every => true,
            LabelSet::Only(labels) => required.iter().all(|label| labels.contains(label)),
        }
    }
}
