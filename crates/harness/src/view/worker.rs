//! The workers of a project: those that run, and those that hold a claim.

use std::path::PathBuf;

use harness_core::{
    Epoch, Ledger, RunId, TaskId, Timestamp, WorkerId,
    format::Glance,
    ledger::{Head, LandingEntry},
    line,
};
use serde::Serialize;

use crate::store::{Presence, RegisteredWorker};

/// A worker and what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerCard {
    /// Its id.
    pub id: String,
    /// Its process; `None` for a client, which is not registered.
    pub pid: Option<u32>,
    /// The host of that process.
    pub host: Option<String>,
    /// What it does.
    pub state: WorkerCondition,
    /// The task that it holds.
    pub task_id: Option<String>,
    /// The title of that task.
    pub title: Option<String>,
    /// The epoch of its claim.
    pub epoch: Option<Epoch>,
    /// The start of the worker.
    pub started_at: Option<Timestamp>,
    /// The time of its claim.
    pub claimed_at: Option<Timestamp>,
    /// The end of the lease of its claim.
    pub lease_expires_at: Option<Timestamp>,
    /// The work tree in which it works.
    pub worktree: Option<PathBuf>,
    /// Its labels.
    pub labels: Vec<String>,
    /// The run that pays for its attempts.
    pub run_id: Option<RunId>,
    /// The place of its result in the line to land, from 1.
    pub landing: Option<usize>,
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkerCondition {
    /// It works on its task.
    Working,
    /// It has nothing to do.
    Idle,
    /// Its result is in the line to land.
    Landing,
    /// It waits for the work of others, whose end may free a task.
    Waiting,
    /// Its process has ended, or its lease ran out.
    Gone,
}

impl WorkerCondition {
    /// Returns the name that programs read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Idle => "idle",
            Self::Landing => "landing",
            Self::Waiting => "waiting",
            Self::Gone => "gone",
        }
    }
}

/// A claim of a worker, from a ledger in either form.
struct Held {
    by: String,
    task: String,
    title: String,
    epoch: Option<Epoch>,
    claimed_at: Option<Timestamp>,
    lease_expires_at: Option<Timestamp>,
    worktree: Option<PathBuf>,
    /// Whether the run that it belongs to is driven by no process.
    is_abandoned: bool,
}

impl WorkerCard {
    /// Returns the workers of a ledger for display, sorted by id.
    pub(super) fn glanced(
        ledger: &Glance<'_>,
        registered: &[RegisteredWorker],
        is_abandoned: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> Vec<Self> {
        let held = ledger.tasks.iter().filter_map(|task| {
            let claim = task.claim.as_ref()?;
            Some(Held {
                by: claim.claimed_by.as_ref()?.clone().into_owned(),
                task: task.id.clone().into_owned(),
                title: task.title.clone().into_owned(),
                epoch: claim.epoch,
                claimed_at: claim.claimed_at,
                lease_expires_at: claim.lease_expires_at,
                worktree: claim.worktree.as_deref().map(PathBuf::from),
                is_abandoned: is_abandoned(&task.id),
            })
        });
        cards(held.collect(), registered, &ledger.head, now)
    }

    /// Returns the workers of a ledger, sorted by id.
    pub fn all(
        ledger: &Ledger,
        registered: &[RegisteredWorker],
        is_abandoned: impl Fn(&TaskId, Option<Epoch>) -> bool,
        now: Timestamp,
    ) -> Vec<Self> {
        let claimed = ledger.selection().claimed().filter_map(|id| ledger.task(id));
        let held = claimed.filter_map(|task| {
            let claim = task.claim()?;
            Some(Held {
                by: claim.by.as_ref()?.to_string(),
                task: task.id.to_string(),
                title: task.title.clone(),
                epoch: task.epoch,
                claimed_at: claim.at,
                lease_expires_at: claim.lease_expires_at,
                worktree: claim.worktree.as_deref().map(PathBuf::from),
                is_abandoned: is_abandoned(&task.id, task.epoch),
            })
        });
        cards(held.collect(), registered, ledger.head(), now)
    }

    /// Returns whether the worker is there and has all of these labels.
    #[must_use]
    pub fn has_labels(&self, labels: &[String]) -> bool {
        self.state != WorkerCondition::Gone && labels.iter().all(|l| self.labels.contains(l))
    }

    fn nobody(id: String) -> Self {
        Self {
            id,
            pid: None,
            host: None,
            state: WorkerCondition::Working,
            task_id: None,
            title: None,
            epoch: None,
            started_at: None,
            claimed_at: None,
            lease_expires_at: None,
            worktree: None,
            labels: Vec::new(),
            run_id: None,
            landing: None,
        }
    }

    fn registered(worker: &RegisteredWorker) -> Self {
        let record = &worker.record;
        Self {
            pid: Some(record.pid),
            host: Some(record.host.clone()),
            started_at: Some(record.started_at),
            worktree: record.worktree.clone(),
            labels: record.labels.clone(),
            run_id: record.run.clone(),
            ..Self::nobody(record.id.to_string())
        }
    }

    fn holding(self, held: Held, line: &[LandingEntry]) -> Self {
        let task = TaskId::parse(&held.task).ok();
        let place =
            task.zip(held.epoch).and_then(|(task, epoch)| line::position(line, &task, epoch));
        Self {
            task_id: Some(held.task),
            title: Some(held.title),
            epoch: held.epoch,
            claimed_at: held.claimed_at,
            lease_expires_at: held.lease_expires_at,
            worktree: held.worktree.or(self.worktree),
            landing: place.map(|at| at + 1),
            ..self
        }
    }
}

/// Joins claims and registered workers. A worker that holds several tasks has a card for each.
fn cards(
    held: Vec<Held>,
    registered: &[RegisteredWorker],
    head: &Head,
    now: Timestamp,
) -> Vec<WorkerCard> {
    let mut cards = Vec::with_capacity(held.len() + registered.len());
    let is_busy = |id: &WorkerId| held.iter().any(|held| held.by == id.as_str());
    let others = !held.is_empty();
    for worker in registered.iter().filter(|worker| !is_busy(&worker.record.id)) {
        let state = match (worker.presence, others) {
            (Presence::Dead, _) => WorkerCondition::Gone,
            (Presence::Alive | Presence::Unknown, true) => WorkerCondition::Waiting,
            (Presence::Alive | Presence::Unknown, false) => WorkerCondition::Idle,
        };
        cards.push(WorkerCard { state, ..WorkerCard::registered(worker) });
    }
    for held in held {
        let found = registered.iter().find(|worker| worker.record.id.as_str() == held.by);
        let ran_out = held.lease_expires_at.is_none_or(|end| end <= now);
        let gone = match found.map(|worker| worker.presence) {
            Some(Presence::Alive) => false,
            Some(Presence::Dead) => true,
            Some(Presence::Unknown) | None => ran_out || held.is_abandoned,
        };
        let id = held.by.clone();
        let card = found.map_or_else(|| WorkerCard::nobody(id), WorkerCard::registered);
        let card = card.holding(held, &head.landing);
        let state = match (gone, card.landing) {
            (true, _) => WorkerCondition::Gone,
            (false, Some(_)) => WorkerCondition::Landing,
            (false, None) => WorkerCondition::Working,
        };
        cards.push(WorkerCard { state, ..card });
    }
    cards.sort_by(|a, b| (&a.id, &a.task_id).cmp(&(&b.id, &b.task_id)));
    cards
}
