//! The reason why a session or a run stopped: one value from the machine that decides it to the
//! exit code. The program around it chooses the text for people and the exit code.

use std::fmt;

use crate::{TaskId, WorkerId, run::StopReason};

/// The reason why a session, a run, or an attempt that ends its session stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The reason that the row of the run stores.
    pub reason: StopReason,
    /// Details that the reason alone does not contain.
    pub detail: StopDetail,
    /// The task that it concerns.
    pub task: Option<TaskId>,
}

/// Details that the reason of a stop alone does not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopDetail {
    /// The reason says everything.
    Nothing,
    /// One line for people.
    Words(String),
    /// Everything is done, but a person must look at something: an alert was raised, or a claim was
    /// lost.
    Alerted,
    /// The time of the attempt was up. The text describes it.
    OutOfTime(String),
    /// Tracked files have changes that nothing accounts for. No work was started.
    Dirty(Vec<String>),
    /// This client works on the task in the same tree. No work was started.
    Client(WorkerId),
    /// The task is in progress, but this session does not work on it. The next session recovers it.
    Unattended,
    /// The task has no check, so it cannot be finished.
    NoCheck,
    /// The gate of a phase is closed.
    Gate {
        /// The name of the phase.
        phase: String,
        /// One line for people.
        why: String,
    },
}

impl Stop {
    /// Returns a stop without details.
    pub const fn because(reason: StopReason) -> Self {
        Self { reason, detail: StopDetail::Nothing, task: None }
    }

    /// Returns a stop with one line for people.
    pub fn with_words(reason: StopReason, words: impl Into<String>) -> Self {
        Self { detail: StopDetail::Words(words.into()), ..Self::because(reason) }
    }

    /// Returns a stop that requires a person to change a setting, the ledger or a task.
    pub fn config(words: impl Into<String>) -> Self {
        Self::with_words(StopReason::Config, words)
    }

    /// Returns a stop that a user or a program asked for.
    pub const fn interrupted() -> Self {
        Self::because(StopReason::Cancelled)
    }

    /// Returns a stop after everything is done, where a person must look at something.
    pub fn alerted() -> Self {
        Self { detail: StopDetail::Alerted, ..Self::because(StopReason::Complete) }
    }

    /// Records that a person must look at something. A stop for any other reason than the end of
    /// the work keeps its details, because they say more.
    pub fn alert(&mut self) {
        let ended = matches!(self.reason, StopReason::Complete | StopReason::Once);
        if ended && self.detail == StopDetail::Nothing {
            self.detail = StopDetail::Alerted;
        }
    }

    /// Returns whether a person must look at something although the work came to its end.
    pub fn is_alerted(&self) -> bool {
        self.detail == StopDetail::Alerted
    }

    /// Returns the line for people, if there is one.
    pub fn words(&self) -> Option<&str> {
        match &self.detail {
            StopDetail::Words(words) | StopDetail::OutOfTime(words) => Some(words),
            StopDetail::Gate { why, .. } => Some(why),
            StopDetail::Nothing
            | StopDetail::Alerted
            | StopDetail::Dirty(_)
            | StopDetail::Client(_)
            | StopDetail::Unattended
            | StopDetail::NoCheck => None,
        }
    }
}

/// Formats the reason and the details for logs and tests.
impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        match &self.detail {
            StopDetail::Nothing => {}
            StopDetail::Words(words) => write!(f, ": {words}")?,
            StopDetail::Alerted => f.write_str(", alerted")?,
            StopDetail::OutOfTime(words) => write!(f, ": {words} (timed out)")?,
            StopDetail::Dirty(files) => write!(f, ", dirty: {}", files.join(", "))?,
            StopDetail::Client(worker) => write!(f, ", held by {worker}")?,
            StopDetail::NoCheck => f.write_str(", without a check")?,
            StopDetail::Unattended => f.write_str(", unattended")?,
            StopDetail::Gate { phase, why } => write!(f, ", gate of {phase}: {why}")?,
        }
        match &self.task {
            Some(task) => write!(f, " ({task})"),
            None => Ok(()),
        }
    }
}
