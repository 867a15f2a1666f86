//! The program to start, and its limits.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::super::{JOB_VARIABLE, RUN_VARIABLE, guard::wire::Launch};

/// The program to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// A path, or a name that is looked up in the `PATH` of `environment`.
    pub program: OsString,
    /// The arguments after the program. There is no shell.
    pub args: Vec<OsString>,
    /// The working directory, which must exist.
    pub directory: PathBuf,
    /// The whole environment: nothing is inherited. `HARNESS_RUN_ID` and `HARNESS_JOB` are added.
    /// `HARNESS_STATE_ROOT`, `HARNESS_TASK_ID` and `HARNESS_EPOCH` name the purpose; the guard's
    /// command line contains the same.
    pub environment: Vec<(OsString, OsString)>,
    /// The standard input.
    pub stdin: Stdin,
    /// The limits of the job.
    pub limits: Limits,
    /// The id of the run, for `HARNESS_RUN_ID`.
    pub label: String,
    /// The folder of the record that is kept while the job lives, for
    /// [`crate::process::leftovers::sweep`].
    pub records: Option<PathBuf>,
}

/// The source of standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`, which ends at once.
    Null,
    /// These bytes are written as the agent reads them, then the input is closed.
    Bytes(Vec<u8>),
    /// These bytes are written first. More may follow by [`Job::say`](super::Job::say) until
    /// [`Job::hang_up`](super::Job::hang_up).
    Open(Vec<u8>),
}

/// The limits of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The time limit of the whole job; `None` means no limit.
    pub timeout: Option<Duration>,
    /// The limit of silence. The first time it is reported, the second time in a row the job is
    /// stopped.
    pub stall: Option<Duration>,
    /// The time between TERM and KILL.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { timeout: None, stall: None, grace: Duration::from_secs(5) }
    }
}

impl Spec {
    pub(super) fn launch(&self, job: &str) -> Launch {
        let mut environment = self.environment.clone();
        environment.retain(|(name, _)| name != JOB_VARIABLE && name != RUN_VARIABLE);
        environment.push((JOB_VARIABLE.into(), job.into()));
        environment.push((RUN_VARIABLE.into(), self.label.clone().into()));
        Launch {
            job: job.to_owned(),
            program: self.program.clone(),
            args: self.args.clone(),
            directory: self.directory.clone().into(),
            environment,
            grace_milliseconds: u64::try_from(self.limits.grace.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
