//! The results of attempts and of runs over the ledger. The row of an attempt records how its agent
//! ended. The judgement of the work came after that, and is in the trajectory.

use std::{collections::HashMap, path::Path};

use harness_core::{
    Category, TaskId,
    run::{Run, RunStatus},
};
use serde::Deserialize;

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
    judged: HashMap<(TaskId, u64), Judged>,
}

impl Outcomes {
    /// Reads the results of all attempts. An unreadable trajectory counts as empty.
    pub(super) fn read(root: &Path) -> Self {
        let mut reader = OutcomeReader::default();
        // Without the trajectory the rows of the attempts remain.
        _ = harness::trajectory::for_each_line(root, |line| reader.line(line));
        reader.outcomes
    }

    fn attempt(&self, run: &Run) -> Option<Judged> {
        self.judged.get(&(run.task.clone()?, run.epoch?.0)).copied()
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

/// The fields of an entry that matter here.
#[derive(Deserialize)]
struct Entry {
    event_type: String,
    task_id: Option<TaskId>,
    epoch: Option<u64>,
    category: Option<String>,
}

/// Collects the results from the entries of the trajectory, oldest first.
#[derive(Default)]
struct OutcomeReader {
    /// The epoch of the last claim of each task.
    epochs: HashMap<TaskId, u64>,
    outcomes: Outcomes,
}

impl OutcomeReader {
    fn line(&mut self, line: &[u8]) {
        if let Ok(Entry { event_type, task_id: Some(task), epoch, category }) =
            serde_json::from_slice(line)
        {
            let judged = match event_type.as_str() {
                "task_claim" => {
                    self.epochs.extend(epoch.map(|epoch| (task, epoch)));
                    return;
                }
                "task_complete" => Some(Judged::Completed),
                "task_fail" => category.and_then(|name| name.parse().ok()).map(Judged::Failed),
                _ => None,
            };
            if let Some((judged, epoch)) = judged.zip(self.epochs.get(&task)) {
                self.outcomes.judged.insert((task, *epoch), judged);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_attempt_is_what_the_ledger_made_of_it() {
        let entries = [
            json!({ "event_type": "task_claim", "task_id": "a", "epoch": 1 }),
            json!({ "event_type": "task_fail", "task_id": "a", "category": "TEST_FAIL" }),
            json!({ "event_type": "task_claim", "task_id": "a", "epoch": 2 }),
            json!({ "event_type": "task_fail", "task_id": "a", "category": "TIMEOUT" }),
            json!({ "event_type": "task_claim", "task_id": "a", "epoch": 3 }),
            json!({ "event_type": "task_complete", "task_id": "a" }),
            json!({ "event_type": "task_fail", "task_id": "b", "category": "TEST_FAIL" }),
        ];
        let mut reader = OutcomeReader::default();
        reader.line(b"{\"torn");
        entries.iter().for_each(|entry| reader.line(entry.to_string().as_bytes()));
        let outcomes = reader.outcomes;
        let of = |epoch: u64| outcomes.judged.get(&(TaskId::parse("a").unwrap(), epoch)).copied();
        assert_eq!(of(1).unwrap().words().as_deref(), Some("check failed"));
        assert_eq!(of(2).unwrap().words().as_deref(), Some("timed out"));
        assert_eq!(of(3), Some(Judged::Completed));
        assert_eq!(outcomes.judged.len(), 3);
    }
}
