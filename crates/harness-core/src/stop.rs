//! Why a session or a run stopped: one value from the machine that decides it to the exit code. The
//! words for people and the exit code are the program's.

use std::fmt;

use crate::{TaskId, WorkerId, run::StopReason};

/// Why a session, a run or an attempt that takes its session along has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The word that the row of the run keeps.
    pub reason: StopReason,
    /// What the reason alone does not tell.
    pub detail: StopDetail,
    /// The task that it concerns.
    pub task: Option<TaskId>,
}

/// What the reason of a stop alone does not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopDetail {
    /// The reason tells everything.
    Nothing,
    /// One line for people.
    Words(String),
    /// Everything is done, but a person has to look at something: an alert was raised, or a claim was
    /// lost.
    Alerted,
    /// The time of the attempt was up; in words.
    OutOfTime(String),
    /// Tracked files with changes that nobody accounts for. Nothing was begun.
    Dirty(Vec<String>),
    /// This client works on the task in the same tree. Nothing was begun.
    Client(WorkerId),
    /// The task is in progress, and this session does not work on it. The next one recovers it.
    Unattended,
    /// The gate of a phase is closed.
    Gate {
        /// The name of the phase.
        phase: String,
        /// One line for people.
        why: String,
    },
}

impl Stop {
    /// A stop whose reason tells everything.
    pub const fn because(reason: StopReason) -> Self {
        Self { reason, detail: StopDetail::Nothing, task: None }
    }

    /// A stop with a line for people.
    pub fn with_words(reason: StopReason, words: impl Into<String>) -> Self {
        Self { detail: StopDetail::Words(words.into()), ..Self::because(reason) }
    }

    /// A person has to change a setting, the ledger or a task.
    pub fn config(words: impl Into<String>) -> Self {
        Self::with_words(StopReason::Config, words)
    }

    /// Somebody asked for it.
    pub const fn interrupted() -> Self {
        Self::because(StopReason::Cancelled)
    }

    /// Everything is done, but a person has to look at something.
    pub fn alerted() -> Self {
        Self { detail: StopDetail::Alerted, ..Self::because(StopReason::Complete) }
    }

    /// Notes that a person has to look at something. Another end than the work's own tells more.
    pub fn alert(&mut self) {
        if matches!(self.reason, StopReason::Complete | StopReason::Once) {
            self.detail = StopDetail::Alerted;
        }
    }

    /// Whether a person has to look at something although the work came to its end.
    pub fn is_alerted(&self) -> bool {
        self.detail == StopDetail::Alerted
    }

    /// The line for people, where it has one.
    pub fn words(&self) -> Option<&str> {
        match &self.detail {
            StopDetail::Words(words) | StopDetail::OutOfTime(words) => Some(words),
            StopDetail::Gate { why, .. } => Some(why),
            StopDetail::Nothing
            | StopDetail::Alerted
            | StopDetail::Dirty(_)
            | StopDetail::Client(_)
            | StopDetail::Unattended => None,
        }
    }
}

/// For logs and tests: the reason, and what belongs to it.
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
            StopDetail::Unattended => f.write_str(", unattended")?,
            StopDetail::Gate { phase, why } => write!(f, ", gate of {phase}: {why}")?,
        }
        match &self.task {
            Some(task) => write!(f, " ({task})"),
            None => Ok(()),
        }
    }
}
