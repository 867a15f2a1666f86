//! The project at work, in the order in which a person looks at it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use harness_core::{Ledger, Receipt, Standing, Stats, Task, TaskId, Timestamp, select::Applicant};
use serde::Serialize;

use super::{
    ActivityLog, BudgetCard, LandedEntry, Need, NeedKind, NextStep, QuestionCard, RunHistory,
    RunSummary, TargetCard, TaskCounts, TaskDetail, TaskSurroundings, WaitEntry, WorkerCard,
    WorkerCondition, WorkingEntry, waiting,
};
use crate::{
    flows::ClosedGate,
    protocol::QuestionView,
    store::{RegisteredWorker, receipt_path},
};

/// Whether what the ledger would run is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trusted {
    /// It is, or that is not known.
    #[default]
    Yes,
    /// It is not.
    No,
}

/// The inputs of a [`Board`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BoardInputs<'a> {
    /// The state root.
    pub root: &'a Path,
    /// A snapshot of the ledger.
    pub ledger: &'a Ledger,
    /// The runs that go on, the last one, and those that claims belong to.
    pub record: &'a RunHistory,
    /// The open questions of the host.
    pub questions: &'a [QuestionView],
    /// The gate that was tried last, if it stayed closed.
    pub gate: Option<&'a ClosedGate>,
    /// The workers that are registered.
    pub workers: &'a [RegisteredWorker],
    /// The number of results that the branch of the user lacks; see [`TargetCard::of`].
    pub ahead: Option<u32>,
    /// What the agents were last seen doing.
    pub activity: &'a ActivityLog,
    /// The receipts of tasks that were completed recently.
    pub receipts: &'a HashMap<TaskId, Receipt>,
    /// Whether what the ledger would run is trusted.
    pub trusted: Trusted,
    /// The number of entries of a list. More are only counted.
    pub most: usize,
}

impl<'a> BoardInputs<'a> {
    /// Creates inputs with a ledger and its runs, and nothing else.
    pub fn new(
        root: &'a Path,
        ledger: &'a Ledger,
        record: &'a RunHistory,
        activity: &'a ActivityLog,
        receipts: &'a HashMap<TaskId, Receipt>,
    ) -> Self {
        let (questions, gate, workers): (&[_], _, &[_]) = (&[], None, &[]);
        let (ahead, trusted, most) = (None, Trusted::Yes, 200);
        Self {
            root,
            ledger,
            record,
            questions,
            gate,
            workers,
            ahead,
            activity,
            receipts,
            trusted,
            most,
        }
    }
}

/// The project at work.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Board {
    /// The time at which it was built.
    pub time: Timestamp,
    /// The state root.
    pub root: PathBuf,
    /// The purpose of the plan.
    pub goal: Option<String>,
    /// The number of tasks in each state.
    pub counts: TaskCounts,
    /// The time since which nothing is claimed.
    pub paused_at: Option<Timestamp>,
    /// The run that goes on, or else the last one.
    pub run: Option<RunSummary>,
    /// What that run has used of its budget.
    pub budget: Option<BudgetCard>,
    /// The time at which the first wait for a usage limit ends.
    pub next_wake_at: Option<Timestamp>,
    /// The workers that are there.
    pub workers: Vec<WorkerCard>,
    /// The branch on which results of several workers land.
    pub target: Option<TargetCard>,
    /// What only a person can settle, the most urgent first.
    pub needs: Vec<Need>,
    /// What is being worked on.
    pub working: Vec<WorkingEntry>,
    /// What waits, and why.
    pub waiting: Vec<WaitEntry>,
    /// What was completed, the newest first.
    pub done: Vec<DoneEntry>,
    /// The number of entries that are not listed.
    pub left_out: LeftOut,
    /// The questions that wait for an answer.
    pub questions: Vec<QuestionCard>,
}

/// The number of entries that the lists of a board leave out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// Tasks that failed for good.
    pub needs: usize,
    /// Tasks that wait.
    pub waiting: usize,
    /// Completed tasks.
    pub done: usize,
}

/// A task that was completed.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct DoneEntry {
    /// The result.
    #[serde(flatten)]
    pub landed: LandedEntry,
    /// The receipt, relative to the state root.
    pub receipt: Option<String>,
}

/// The number of failed tasks that are listed.
const FAILED_MAX: usize = 20;

impl Board {
    /// Returns the project at `now`.
    pub fn of(inputs: &BoardInputs<'_>, now: Timestamp) -> Self {
        let BoardInputs { ledger, record, activity, .. } = *inputs;
        let head = ledger.head();
        let abandoned = |task: &TaskId, epoch| record.abandoned(task, epoch).is_some();
        let workers = WorkerCard::all(ledger, inputs.workers, abandoned, now);
        let claims = workers.iter().filter(|card| card.state != WorkerCondition::Gone);
        let claims =
            claims.filter_map(|card| WorkingEntry::of_claim(card, ledger, record, activity));
        let objectives =
            record.live().filter_map(|run| WorkingEntry::of_objective(run, record, activity));
        let mut board = Self {
            time: now,
            root: inputs.root.to_owned(),
            goal: head.goal.clone(),
            counts: TaskCounts::from(Stats::of(ledger)),
            paused_at: head.paused_at,
            run: None,
            budget: None,
            next_wake_at: None,
            target: TargetCard::of(&head.session_config, inputs.ahead),
            needs: Vec::new(),
            working: claims.chain(objectives).collect(),
            waiting: Vec::new(),
            done: Vec::new(),
            left_out: LeftOut::default(),
            questions: inputs.questions.iter().map(QuestionCard::from).collect(),
            workers,
        };
        board.take_run(inputs, now);
        board.take_waiting(inputs, now);
        board.take_done(inputs, now);
        board.take_needs(inputs);
        board
    }

    fn take_run(&mut self, inputs: &BoardInputs<'_>, now: Timestamp) {
        let record = inputs.record;
        let live = record.tops().find(|run| !run.status.is_over() && record.is_driven(run));
        let run = live.or_else(|| record.tops().next());
        self.run = run.map(|run| RunSummary::of(run, record));
        self.budget = run.map(|run| BudgetCard::of(run, now));
    }

    /// Moves what waits out of what works, and adds the tasks that nobody works on.
    fn take_waiting(&mut self, inputs: &BoardInputs<'_>, now: Timestamp) {
        let (ledger, most) = (inputs.ledger, inputs.most);
        let mut entries = Vec::new();
        self.working.retain(|entry| {
            let wait = WaitEntry::of_limit(entry, now).or_else(|| WaitEntry::of_landing(entry));
            let works = wait.is_none();
            entries.extend(wait);
            works
        });
        self.next_wake_at = entries.iter().filter_map(|entry: &WaitEntry| entry.until).min();
        if entries.is_empty() {
            entries.extend(self.run.as_ref().and_then(|run| waiting::of_run(run, now)));
        }
        let around = self.around(inputs);
        let next = ledger.selection().next(Applicant::PLAIN).and_then(|id| ledger.task(id));
        let is_next = |task: &&Task| next.is_none_or(|next| next.id != task.id);
        let open = next.into_iter().chain(ledger.tasks().filter(is_next));
        let (mut listed, mut left_out) = (0, 0);
        let waits = |task: &&Task| {
            let is_open = task.unfinished() || waiting::failed_before(task).is_some();
            is_open && task.claim().is_none()
        };
        for task in open.filter(waits) {
            if listed >= most {
                left_out += 1;
                continue;
            }
            if let Some(entry) = WaitEntry::of_task(ledger, task, &around, now) {
                entries.push(entry);
                listed += 1;
            }
        }
        entries.sort_by_key(|entry| entry.kind);
        self.left_out.waiting = left_out;
        self.waiting = entries;
    }

    fn around<'b>(&'b self, inputs: &BoardInputs<'b>) -> TaskSurroundings<'b> {
        let mut around = TaskSurroundings::new(inputs.record);
        around.questions = inputs.questions;
        around.gate = inputs.gate;
        around.workers = &self.workers;
        around.paused_at = self.paused_at;
        around
    }

    fn take_done(&mut self, inputs: &BoardInputs<'_>, now: Timestamp) {
        let ledger = inputs.ledger;
        let recent = recently_completed(ledger, inputs.most);
        self.left_out.done = self.counts.completed.saturating_sub(recent.len());
        let around = self.around(inputs);
        let done = recent.into_iter().map(|task| {
            let detail = TaskDetail::of(task, Standing::Completed, &around, now);
            let receipt = inputs.receipts.get(&task.id);
            DoneEntry {
                landed: LandedEntry::of(detail, receipt),
                receipt: receipt.map(|r| receipt_path(&r.task, r.epoch)),
            }
        });
        self.done = done.collect();
    }

    fn take_needs(&mut self, inputs: &BoardInputs<'_>) {
        let (ledger, record) = (inputs.ledger, inputs.record);
        let head = ledger.head();
        let mut needs: Vec<Need> = self.questions.iter().map(Need::question).collect();
        let is_left = self.counts.completed < self.counts.total;
        let left = |run: &RunSummary| run.objective.is_some() || is_left;
        let cut_off = record.live().filter(|run| run.parent.is_none() && !record.is_driven(run));
        let runs = cut_off.map(|run| RunSummary::of(run, record)).collect::<Vec<_>>();
        let last = self.run.iter().filter(|run| runs.iter().all(|r| r.run_id != run.run_id));
        needs.extend(runs.iter().chain(last).filter(|run| left(run)).filter_map(Need::run));
        if inputs.trusted == Trusted::No {
            let text = "this ledger is not trusted to run its commands";
            needs.push(Need::of(NeedKind::Untrusted, text, NextStep::Trust));
        }
        let gate = inputs.gate.filter(|gate| gate.is_current(&head.phases));
        needs.extend(gate.map(|gate| {
            let text = format!("the gate of {} is closed: {}", gate.phase, gate.why);
            Need::of(NeedKind::Gate, text, NextStep::Run)
        }));
        needs.extend(head.alerts.iter().map(|alert| Need {
            task_id: alert.task.clone(),
            ..Need::of(NeedKind::Alert, alert.message.clone(), NextStep::Acknowledge)
        }));
        let mut failed = ledger.tasks().filter_map(Need::failed);
        needs.extend(failed.by_ref().take(FAILED_MAX));
        self.left_out.needs = failed.count();
        needs.extend(self.target.as_ref().and_then(Need::results));
        self.needs = needs;
    }
}

/// Returns the tasks that were completed last, the newest first.
pub fn recently_completed(ledger: &Ledger, most: usize) -> Vec<&Task> {
    let mut done: Vec<&Task> = ledger.tasks().filter(|t| t.completed_at().is_some()).collect();
    let newest_first = |a: &&Task, b: &&Task| b.completed_at().cmp(&a.completed_at());
    if done.len() > most {
        done.select_nth_unstable_by(most, newest_first);
        done.truncate(most);
    }
    done.sort_by(newest_first);
    done
}
