//! The reasons why a job did not start, and warnings for one that did.

use std::{ffi::OsString, fmt, io, path::PathBuf};

use super::super::guard::wire::{Launch, What};

/// The reason why a job did not start. Everything that had begun is killed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobStartError {
    /// The program was found neither by that path nor in the `PATH` of its environment.
    #[error("program not found: {}", .program.display())]
    NotFound {
        /// The program of the [`Spec`](super::Spec).
        program: OsString,
    },
    /// The program exists, but cannot be executed.
    #[error("cannot start {}: {error}", .program.display())]
    Program {
        /// The program of the [`Spec`](super::Spec).
        program: OsString,
        /// The error of the system.
        error: io::Error,
    },
    /// The directory does not exist, or cannot be entered.
    #[error("cannot start in {}: {error}", .directory.display())]
    Directory {
        /// The directory of the [`Spec`](super::Spec).
        directory: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The record could not be written. Without it, leftovers of a killed harness could not be
    /// found.
    #[error("cannot record the process: {0}")]
    Record(#[source] io::Error),
    /// The guard could not be started, or went away.
    #[error("cannot guard the process: {0}")]
    Guard(#[source] io::Error),
    /// Its pipes and sockets could not be set up.
    #[error("cannot start a process: {0}")]
    Io(#[source] io::Error),
}

impl JobStartError {
    pub(super) fn refused(what: What, errno: i32, launch: &Launch) -> JobStartError {
        let error = io::Error::from_raw_os_error(errno);
        match what {
            What::Directory => {
                JobStartError::Directory { directory: launch.directory.clone().into(), error }
            }
            What::Program if error.kind() == io::ErrorKind::NotFound => {
                JobStartError::NotFound { program: launch.program.clone() }
            }
            What::Program => JobStartError::Program { program: launch.program.clone(), error },
        }
    }
}

/// A message for the user although the job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobWarning {
    /// [`guard::init`](crate::guard::init) was not called. Harness itself ends the tree, but only
    /// as long as it lives.
    NoGuard,
}

impl fmt::Display for JobWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobWarning::NoGuard => f.write_str(
                "agents run without a guard: if this program is killed, the processes that they \
                 started may run on until the next start (call harness::guard::init() first in main)",
            ),
        }
    }
}
