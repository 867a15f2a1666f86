//! Why a job did not start, and what to say although it did.

use std::{ffi::OsString, fmt, io, path::PathBuf};

use super::super::guard::wire::{Launch, What};

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("there is no program {}", .program.display())]
    NotFound { program: OsString },
    #[error("can not start {}: {error}", .program.display())]
    Program { program: OsString, error: io::Error },
    #[error("can not start in {}: {error}", .directory.display())]
    Directory { directory: PathBuf, error: io::Error },
    #[error("can not record the process: {0}")]
    Record(#[source] io::Error),
    /// The guard could not be started, or went away.
    #[error("can not guard the process: {0}")]
    Guard(#[source] io::Error),
    #[error("can not start a process: {0}")]
    Io(#[source] io::Error),
}

impl StartError {
    pub(super) fn refused(what: What, errno: i32, launch: &Launch) -> StartError {
        let error = io::Error::from_raw_os_error(errno);
        match what {
            What::Directory => {
                StartError::Directory { directory: launch.directory.clone().into(), error }
            }
            What::Program if error.kind() == io::ErrorKind::NotFound => {
                StartError::NotFound { program: launch.program.clone() }
            }
            What::Program => StartError::Program { program: launch.program.clone(), error },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    NoGuard,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::NoGuard => f.write_str(
                "agents run without a guard: if this program is killed, what they have started may \
                 run on until the next start (call harness::guard::init() first thing in main)",
            ),
        }
    }
}
