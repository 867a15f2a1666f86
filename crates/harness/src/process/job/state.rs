//! The state of a job, and its events.

use std::time::{Duration, SystemTime};

use harness_core::agent::StoppedBy;

use super::super::pipes::Chunk;

/// The state of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobState {
    /// The start was requested.
    Pending,
    /// The job runs, possibly while it is being stopped.
    Running {
        /// The process id of the agent, not of its guard.
        pid: u32,
        /// The time at which the guard reported its start.
        since: SystemTime,
    },
    /// Nothing of the tree is left, except what `left` names.
    Finished(Finished),
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The exit of the agent's own process.
    pub exit: JobExit,
    /// The reason, if it was stopped.
    pub stopped_by: Option<StoppedBy>,
    /// The time from the order to start until the end of the whole tree.
    pub duration: Duration,
    /// The ids of processes that could not be ended.
    pub left: Vec<u32>,
}

/// The exit of the agent's own process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobExit {
    /// It ended by itself.
    Code(i32),
    /// A signal killed it, from us or from others.
    Signal(i32),
    /// The guard was killed, and the agent with it, before it could report.
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

    /// Returns whether the exit code was 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == JobExit::Code(0)
    }
}

/// An event of a running job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// Output, in the order of each stream. The order between the two streams is not defined.
    Output(Chunk),
    /// Nothing came for [`Limits::stall`](super::Limits::stall). If nothing comes for as long
    /// again, the job is stopped.
    Stalled {
        /// The duration, which is the limit.
        silent: Duration,
    },
}
