//! The history of one task: its attempts, and what each of them left.

use harness_core::{CommitId, Epoch, Flag, Receipt, Timestamp, task::Status};
use serde::Serialize;

use super::{AttemptSummary, IterationCard, RunHistory, TaskDetail};

/// A task with everything that its attempts left.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TaskStory<'a> {
    /// The id of the task.
    pub task_id: String,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: &'static str,
    /// What is to be done, for the agent.
    pub instructions: Option<String>,
    /// Its check.
    pub check: Option<String>,
    /// The tasks that it depends on.
    pub depends_on: Vec<String>,
    /// Its phase.
    pub phase: Option<String>,
    /// Why it stands where it stands.
    pub why: String,
    /// What went wrong so far, oldest first.
    pub errors: Vec<String>,
    /// The end of the output of its check when that last failed.
    pub check_output: Option<String>,
    /// The number of attempts that ended.
    pub ended_attempts: u32,
    /// The number of attempts after which it has failed for good.
    pub max_attempts: u32,
    /// Its attempts by runs, oldest first.
    pub attempts: Vec<AttemptStory>,
    /// The state of the task, as `harness why` has it.
    #[serde(flatten)]
    pub detail: TaskDetail<'a>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AttemptStory {
    /// Its number, from 1.
    pub number: u32,
    /// The row of the attempt.
    #[serde(flatten)]
    pub summary: AttemptSummary,
    /// Its contexts, oldest first.
    pub iterations: Vec<IterationCard>,
    /// The end of the output of its check, whether that passed or failed.
    pub check_output: Option<String>,
    /// The record of its completion.
    pub receipt: Option<Receipt>,
    /// Points that a person should look at.
    pub flags: Vec<String>,
    /// The commit that it started from.
    pub base: Option<CommitId>,
    /// The commit with its result: what landed, or what a rollback saved.
    pub commit: Option<CommitId>,
    /// What its rollback saved.
    pub rescue: Option<RescueCard>,
}

/// Work that a rollback saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RescueCard {
    /// Its name: `TASK/ATTEMPT`, perhaps with `-2`.
    pub name: String,
    /// The commit.
    pub commit: CommitId,
    /// The commit that the attempt started from, if it is known.
    pub base: Option<CommitId>,
    /// The time at which it was saved.
    pub when: Timestamp,
}

impl RescueCard {
    /// Creates a card.
    pub fn new(name: String, commit: CommitId, base: Option<CommitId>, when: Timestamp) -> Self {
        Self { name, commit, base, when }
    }

    /// Returns the number of the attempt in its name.
    fn attempt(&self) -> Option<u32> {
        let (_, number) = self.name.rsplit_once('/')?;
        number.split('-').next()?.parse().ok()
    }
}

impl<'a> TaskStory<'a> {
    /// Returns the story of the task of `detail`.
    pub fn of(
        detail: TaskDetail<'a>,
        record: &RunHistory,
        receipts: &[Receipt],
        rescues: &[RescueCard],
        check_output: Option<String>,
    ) -> Self {
        let task = detail.task;
        let newest = match task.status() {
            Status::InProgress => task.attempts.saturating_add(1),
            Status::Pending | Status::Failed | Status::Completed => task.attempts,
        };
        let number =
            |back: usize| newest.saturating_sub(u32::try_from(back).unwrap_or(u32::MAX)).max(1);
        let stories = detail.runs.iter().enumerate().map(|(back, summary)| {
            AttemptStory::of(number(back), summary, record, receipts, rescues)
        });
        let mut attempts: Vec<AttemptStory> = stories.collect();
        attempts.reverse();
        Self {
            task_id: task.id.to_string(),
            title: task.title.clone(),
            status: task.status().name(),
            instructions: task.instructions.clone(),
            check: task.check().map(str::to_owned),
            depends_on: task.depends_on.iter().map(ToString::to_string).collect(),
            phase: task.phase.clone(),
            why: match detail.paused_at {
                Some(since) => format!("{}; claiming is paused since {since}", detail.standing),
                None => detail.standing.to_string(),
            },
            errors: task.error_log.iter().map(ToString::to_string).collect(),
            check_output,
            ended_attempts: task.attempts,
            max_attempts: task.max_attempts,
            attempts,
            detail,
        }
    }

    /// Adds the output of the checks that failed, which `output` returns for an attempt.
    #[must_use]
    pub fn with_outputs(mut self, output: impl Fn(Epoch) -> Option<String>) -> Self {
        for attempt in self.attempts.iter_mut().filter(|attempt| attempt.check_output.is_none()) {
            attempt.check_output = attempt.summary.epoch.and_then(&output);
        }
        self
    }
}

impl AttemptStory {
    fn of(
        number: u32,
        summary: &AttemptSummary,
        record: &RunHistory,
        receipts: &[Receipt],
        rescues: &[RescueCard],
    ) -> Self {
        let receipt = receipts.iter().find(|r| Some(r.epoch) == summary.epoch).cloned();
        // The last one of its number has everything that the earlier ones have.
        let rescue = rescues.iter().rfind(|r| r.attempt() == Some(number));
        let rescue = rescue.filter(|_| receipt.is_none()).cloned();
        let of_row = record.iterations(&summary.run_id);
        let base = receipt.as_ref().and_then(|r| r.base.clone());
        let base = base.or_else(|| rescue.as_ref().and_then(|r| r.base.clone()));
        let base = base.or_else(|| of_row.first().and_then(|i| i.head_before.clone()));
        let commit = receipt.as_ref().and_then(|r| r.commit.clone());
        let passed = receipt.as_ref().and_then(|receipt| receipt.check.as_ref());
        Self {
            number: receipt.as_ref().map_or(number, |r| r.attempt),
            summary: summary.clone(),
            iterations: of_row.iter().map(IterationCard::from).collect(),
            check_output: passed.map(|check| check.output_tail.clone()),
            flags: receipt.as_ref().map(flags).unwrap_or_default(),
            base,
            commit: commit.or_else(|| rescue.as_ref().map(|r| r.commit.clone())),
            receipt,
            rescue,
        }
    }
}

fn flags(receipt: &Receipt) -> Vec<String> {
    let mut flags = Vec::new();
    if !receipt.protected.is_empty() {
        flags.push(harness_core::protect::touched(&receipt.protected));
    }
    let others = receipt.flags.iter().filter(|flag| **flag != Flag::Protected);
    flags.extend(others.map(ToString::to_string));
    flags
}
