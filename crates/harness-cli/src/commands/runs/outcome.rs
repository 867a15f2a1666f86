//! The results of attempts and of runs over the ledger. The row of an attempt records how its agent
//! ended. The judgement of the work came after that, and is in the trajectory.

use std::{collections::HashMap, path::Path};

use harness_core::{
    Category, TaskId,
    run::{Run, RunStatus},
};
use serde_json::Value;

/// The number of entries of the trajectory that are read. Older attempts are shown by their rows.
const ENTRIES_MAX: usize = 100_000;

/// The result of an attempt in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    Completed,
    Failed(Category),
}

impl Judged {
    /// Returns the result in words for people.
    fn words(self) -> Option<String> {
        match self {
            Self::Completed => None,
            Self::Failed(Category::TestFail) => Some("check failed".to_owned()),
            Self::Failed(Category::Timeout) => Some("timed out".to_owned()),
            Self::Failed(category) => Some(format!("failed: {category}")),
        }
    }
}

/// The results of the attempts, by task and epoch.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    judged: HashMap<(String, u64), Judged>,
}

impl Outcomes {
    /// Reads the results. An unreadable trajectory counts as empty.
    pub(super) fn read(root: &Path) -> Self {
        Self::of(&harness::trajectory::last(root, ENTRIES_MAX).unwrap_or_default())
    }

    fn of(entries: &[Value]) -> Self {
        let mut outcomes = Self::default();
        let mut epochs: HashMap<&str, u64> = HashMap::new();
        for entry in entries {
            let Some(task) = entry["task_id"].as_str() else { continue };
            let judged = match entry["event_type"].as_str() {
                Some("task_claim") => {
                    epochs.extend(entry["epoch"].as_u64().map(|epoch| (task, epoch)));
                    continue;
                }
                Some("task_complete") => Some(Judged::Completed),
                Some("task_fail") => entry["category"]
                    .as_str()
                    .and_then(|name| name.parse().ok())
                    .map(Judged::Failed),
                _ => None,
            };
            if let Some((judged, epoch)) = judged.zip(epochs.get(task)) {
                outcomes.judged.insert((task.to_owned(), *epoch), judged);
            }
        }
        outcomes
    }

    fn attempt(&self, run: &Run) -> Option<Judged> {
        let task = run.task.as_ref().map(TaskId::to_string)?;
        self.judged.get(&(task, run.epoch?.0)).copied()
    }

    /// Returns the text that replaces the state of the row; `None` if the row is right.
    pub(super) fn words<'a>(
        &self,
        run: &Run,
        attempts: impl Iterator<Item = &'a Run>,
    ) -> Option<String> {
        if run.task.is_some() {
            let judged = self.attempt(run).filter(|_| run.status.is_over())?;
            return judged.words();
        }
        let over_ledger = run.objective.is_none() && run.status == RunStatus::Succeeded;
        // The newest comes first, so the first one of a task is its last attempt.
        let mut last: HashMap<&TaskId, Option<Judged>> = HashMap::new();
        for attempt in attempts {
            if let Some(task) = &attempt.task {
                last.entry(task).or_insert_with(|| self.attempt(attempt));
            }
        }
        let failed = last.values().any(|judged| matches!(judged, Some(Judged::Failed(_))));
        (over_ledger && failed).then(|| "finished with failures".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_attempt_is_what_the_ledger_made_of_it() {
        let outcomes = Outcomes::of(&[
            json!({ "event_type": "task_claim", "task_id": "a", "epoch": 1 }),
            json!({ "event_type": "task_fail", "task_id": "a", "category": "TEST_FAIL" }),
            json!({ "event_type": "task_claim", "task_id": "a", "epoch": 2 }),
            json!({ "event_type": "task_fail", "task_id": "a", "category": "TIMEOUT" }),
            json!({ "event_type": "task_claim", "task_id": "a", "epoch": 3 }),
            json!({ "event_type": "task_complete", "task_id": "a" }),
            json!({ "event_type": "task_fail", "task_id": "b", "category": "TEST_FAIL" }),
        ]);
        let of = |epoch: u64| outcomes.judged.get(&("a".to_owned(), epoch)).copied();
        assert_eq!(of(1).unwrap().words().as_deref(), Some("check failed"));
        assert_eq!(of(2).unwrap().words().as_deref(), Some("timed out"));
        assert_eq!(of(3), Some(Judged::Completed));
        assert_eq!(outcomes.judged.len(), 3);
    }
}
