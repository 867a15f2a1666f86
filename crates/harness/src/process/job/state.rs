//! Where a job stands and what it tells.

use std::time::{Duration, SystemTime};

use harness_core::agent::StoppedBy;

use super::super::pipes::Chunk;

#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Asked for, not yet there.
    Pending,
    Running {
        pid: u32,
        since: SystemTime,
    },
    Finished(Finished),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    pub exit: Exit,
    /// Who ended it, if it did not end by itself.
    pub stopped_by: Option<StoppedBy>,
    pub duration: Duration,
    /// What could not be ended, by process number.
    pub left: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The guard was killed, and the agent with it, before it could tell.
    Unknown,
}

impl Exit {
    pub(super) fn of(code: Option<i32>, signal: Option<i32>) -> Exit {
        match (code, signal) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Unknown,
        }
    }

    #[must_use]
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Output(Chunk),
    /// Nothing came for [`Limits::stall`](super::Limits::stall). If nothing comes for as long again, the job is stopped.
    Stalled {
        silent: Duration,
    },
}
