//! What to start, and how long to bear it.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::super::{JOB_VARIABLE, RUN_VARIABLE, guard::wire::Launch};

/// What to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// A path, or a name that is looked up in the `PATH` of `environment`.
    pub program: OsString,
    /// Behind the program; there is no shell.
    pub args: Vec<OsString>,
    /// Where it runs. It has to be there.
    pub directory: PathBuf,
    /// All of it: nothing is inherited. `HARNESS_RUN_ID` and `HARNESS_JOB` are added.
    /// `HARNESS_STATE_ROOT`, `HARNESS_TASK_ID` and `HARNESS_EPOCH` say what it is started for; the
    /// guard's command line says the same.
    pub environment: Vec<(OsString, OsString)>,
    /// What it reads.
    pub stdin: Stdin,
    /// How long it is borne.
    pub limits: Limits,
    /// The run's id: `HARNESS_RUN_ID`.
    pub label: String,
    /// Where a record is kept while the job lives, for [`crate::process::leftovers::sweep`].
    pub records: Option<PathBuf>,
}

/// Where standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`: it ends at once.
    Null,
    /// Written as the agent takes it, then closed.
    Bytes(Vec<u8>),
    /// Written first; more may follow by [`Job::say`](super::Job::say) until
    /// [`Job::hang_up`](super::Job::hang_up).
    Open(Vec<u8>),
}

/// How long a job is borne.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// For all of it; `None` is for ever.
    pub timeout: Option<Duration>,
    /// For silence; told once, ended at the second time in a row.
    pub stall: Option<Duration>,
    /// Between TERM and KILL.
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
