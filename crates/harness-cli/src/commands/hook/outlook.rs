//! What is left of a ledger, as the hooks tell it.

use std::collections::BTreeMap;

use harness_core::{Ledger, Task, WorkerId, ledger::ConcurrencyMode, log::escape, task::Status};

use super::{payload::Payload, project::shortened};
use crate::environment::Environment;

/// A title has no bound of its own, and what agents are told has.
const TITLE_CHARACTERS: usize = 300;

pub(super) struct Outlook<'a> {
    ledger: &'a Ledger,
    /// Pending, and nothing before them is missing; in the order in which they are chosen.
    pub(super) ready: Vec<&'a Task>,
    /// Failed, to be tried again; in that order.
    pub(super) retryable: Vec<&'a Task>,
    pub(super) in_progress: Vec<&'a Task>,
}

impl<'a> Outlook<'a> {
    pub(super) fn of(ledger: &'a Ledger) -> Self {
        let queue = ledger.selection().queue(None);
        let queue = queue.into_iter().filter_map(|id| ledger.task(id));
        let (ready, retryable) = queue.partition(|task| task.status() == Status::Pending);
        let in_progress = ledger.tasks().filter(|t| t.status() == Status::InProgress).collect();
        Self { ledger, ready, retryable, in_progress }
    }

    pub(super) fn is_concurrent(&self) -> bool {
        self.ledger.head().session_config.concurrency_mode == ConcurrencyMode::Concurrent
    }

    /// Whether anything could be claimed.
    pub(super) fn has_open(&self) -> bool {
        !self.ready.is_empty() || !self.retryable.is_empty()
    }

    /// What comes next: what could be claimed, else what is being worked on.
    pub(super) fn next(&self) -> Option<&'a Task> {
        let open = self.ready.first().or(self.retryable.first());
        open.or(self.in_progress.first()).copied()
    }

    /// The claimed tasks of any of these workers.
    pub(super) fn of_workers(&self, names: &[&str]) -> Vec<&'a Task> {
        let mine = |task: &&Task| owner(task).is_some_and(|by| names.contains(&by));
        self.in_progress.iter().copied().filter(mine).collect()
    }

    pub(super) fn completed(&self) -> usize {
        self.ledger.tasks().filter(|task| task.status() == Status::Completed).count()
    }

    /// `completed=1 pending=3 total=4 next=task-002: Two`
    pub(super) fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for task in self.ledger.tasks() {
            *counts.entry(task.status().name()).or_default() += 1;
        }
        let counts: String =
            counts.into_iter().map(|(name, count)| format!("{name}={count} ")).collect();
        let next = self.next().map(|task| format!(" next={}: {}", task.id, title(task)));
        format!("{counts}total={}{}", self.ledger.len(), next.unwrap_or_default())
    }
}

/// Who works on it; `None` also where an edit left an empty name.
pub(super) fn owner(task: &Task) -> Option<&str> {
    task.claimed_by().map(WorkerId::as_str).filter(|by| !by.is_empty())
}

/// `[task-001] Its title`
pub(super) fn named(task: &Task) -> String {
    format!("[{}] {}", task.id, title(task))
}

fn title(task: &Task) -> String {
    shortened(&escape(&task.title), TITLE_CHARACTERS)
}

/// HARNESS_WORKER_ID, where it is text.
pub(super) fn worker(env: &Environment) -> Option<&str> {
    env.get("HARNESS_WORKER_ID").and_then(|id| id.to_str())
}

/// All names under which the caller may have claimed.
pub(super) fn identities<'a>(
    env: &'a Environment,
    payload: &'a Payload,
    fields: &[&str],
) -> Vec<&'a str> {
    let told = fields.iter().filter_map(|name| payload.text(name));
    worker(env).into_iter().chain(told).collect()
}
