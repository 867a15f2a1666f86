//! The remaining work of a ledger, in the form for hooks.

use std::collections::BTreeMap;

use harness_core::{
    Ledger, Task, WorkerId, ledger::ConcurrencyMode, log::escape, select::Applicant, task::Status,
};

use super::{payload::Payload, project::shortened};
use crate::environment::Environment;

/// The limit of a title. Titles are unbounded, but messages to agents are not.
const TITLE_CHARACTERS: usize = 300;

pub(super) struct Outlook<'a> {
    ledger: &'a Ledger,
    /// Pending tasks without open dependencies, in the order of selection.
    pub(super) ready: Vec<&'a Task>,
    /// Failed tasks that will be tried again, in that order.
    pub(super) retryable: Vec<&'a Task>,
    pub(super) in_progress: Vec<&'a Task>,
}

impl<'a> Outlook<'a> {
    pub(super) fn of(ledger: &'a Ledger) -> Self {
        let queue = ledger.selection().queue(Applicant::PLAIN);
        let queue = queue.into_iter().filter_map(|id| ledger.task(id));
        let (ready, retryable) = queue.partition(|task| task.status() == Status::Pending);
        let in_progress = ledger.tasks().filter(|t| t.status() == Status::InProgress).collect();
        Self { ledger, ready, retryable, in_progress }
    }

    pub(super) fn is_concurrent(&self) -> bool {
        self.ledger.head().session_config.concurrency_mode == ConcurrencyMode::Concurrent
    }

    /// Returns whether a person paused claiming.
    pub(super) fn is_paused(&self) -> bool {
        self.ledger.head().paused_at.is_some()
    }

    /// Returns whether anything could be claimed.
    pub(super) fn has_open(&self) -> bool {
        !self.is_paused() && self.has_work()
    }

    fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.retryable.is_empty()
    }

    /// Returns the next task: one that could be claimed, or one in progress.
    pub(super) fn next(&self) -> Option<&'a Task> {
        let open = self.ready.first().or(self.retryable.first());
        open.or(self.in_progress.first()).copied()
    }

    /// Returns the claimed tasks of any of these workers.
    pub(super) fn of_workers(&self, names: &[&str]) -> Vec<&'a Task> {
        let mine = |task: &&Task| owner(task).is_some_and(|by| names.contains(&by));
        self.in_progress.iter().copied().filter(mine).collect()
    }

    pub(super) fn completed(&self) -> usize {
        self.ledger.tasks().filter(|task| task.status() == Status::Completed).count()
    }

    /// Returns a line such as `completed=1 pending=3 total=4 next=task-002: Two`.
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

/// Returns the worker of a task. An empty name, which an edit may leave, counts as none.
pub(super) fn owner(task: &Task) -> Option<&str> {
    task.claimed_by().map(WorkerId::as_str).filter(|by| !by.is_empty())
}

/// Formats a task as `[task-001] Its title`.
pub(super) fn named(task: &Task) -> String {
    format!("[{}] {}", task.id, title(task))
}

fn title(task: &Task) -> String {
    shortened(&escape(&task.title), TITLE_CHARACTERS)
}

/// Returns HARNESS_WORKER_ID, if it is text.
pub(super) fn worker(env: &Environment) -> Option<&str> {
    env.get("HARNESS_WORKER_ID").and_then(|id| id.to_str())
}

/// Returns all names under which the caller may have claimed.
pub(super) fn identities<'a>(
    env: &'a Environment,
    payload: &'a Payload,
    fields: &[&str],
) -> Vec<&'a str> {
    let told = fields.iter().filter_map(|name| payload.text(name));
    worker(env).into_iter().chain(told).collect()
}
