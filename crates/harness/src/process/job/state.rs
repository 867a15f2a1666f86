//! Where a job stands and what it tells.

use std::time::{Duration, SystemTime};

use harness_core::agent::StoppedBy;

use super::super::pipes::Chunk;

/// Where a job stands.
#[derive(Debug, Clone, PartialEq)]
pub enum JobState {
    /// Asked for, not yet there.
    Pending,
    /// Also while it is being stopped.
    Running {
        /// Of the agent, not of its guard.
        pid: u32,
        /// When the guard told of its start.
        since: SystemTime,
    },
    /// Nothing of the tree is left, but what `left` names.
    Finished(Finished),
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Of the agent's own process.
    pub exit: JobExit,
    /// Who ended it, if it did not end by itself.
    pub stopped_by: Option<StoppedBy>,
    /// From the order to start until the end of the whole tree.
    pub duration: Duration,
    /// What could not be ended, by process number.
    pub left: Vec<u32>,
}

/// How the agent's own process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobExit {
    /// By itself.
    Code(i32),
    /// Killed, by us or by others.
    Signal(i32),
    /// The guard was killed, and the agent with it, before it could tell.
    Unknown,
}

impl JobExit {
    pub(in crate::process) fn of(code: Option<i32>, signal: Option<i32>) -> JobExit {
        match (code, signal) {
            (Some(code), _) => JobExit::Code(code),
            (None, Some(signal)) => JobExit::Signal(signal),
            (None, None) => JobExit::Unknown,
        }
    }

    /// Exit code 0, and nothing else.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == JobExit::Code(0)
    }
}

/// What a job tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// In the order of each stream; between the two there is none.
    Output(Chunk),
    /// Nothing came for [`Limits::stall`](super::Limits::stall). If nothing comes for as long again, the job is stopped.
    Stalled {
        /// How long: the limit.
        silent: Duration,
    },
}
