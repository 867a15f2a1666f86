//! Why a job did not start, and what to say although it did.

use std::{ffi::OsString, fmt, io, path::PathBuf};

use super::super::guard::wire::{Launch, What};

/// Why a job did not start. What had begun is killed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobStartError {
    /// Neither by that path nor in the `PATH` it was given.
    #[error("program not found: {}", .program.display())]
    NotFound {
        /// As in [`Spec`](super::Spec).
        program: OsString,
    },
    /// It is there, but cannot be executed.
    #[error("cannot start {}: {error}", .program.display())]
    Program {
        /// As in [`Spec`](super::Spec).
        program: OsString,
        /// What the system says.
        error: io::Error,
    },
    /// It is not there, or cannot be entered.
    #[error("cannot start in {}: {error}", .directory.display())]
    Directory {
        /// As in [`Spec`](super::Spec).
        directory: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Without a record nobody would find what a killed harness leaves.
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

/// What the user should know although the job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobWarning {
    /// [`guard::init`](crate::guard::init) was not called: the harness itself ends the tree, and only
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
