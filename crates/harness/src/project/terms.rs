//! The terms of a run (its limits and its verify command) and its usage, stored outside of the work
//! tree because the agent can edit the database. A resume reports where the two differ, and
//! recorded usage never decreases.

use std::{
    fmt, fs,
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use harness_core::{Run, RunId, agent::Usage};
use serde::{Deserialize, Serialize};

use crate::home::Outside;

/// The kept terms, one small file for each run of a state root.
#[derive(Debug, Clone)]
pub struct KeptTerms {
    folder: PathBuf,
}

/// A warning about a run that was begun nevertheless.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunWarning {
    /// A term in the database differs from the one with which the run was last resumed.
    TermEdited {
        /// The run.
        run: RunId,
        /// The term.
        name: &'static str,
        /// Its value as it was kept.
        kept: String,
        /// Its value in the database.
        stored: String,
    },
    /// The database has less than the run had used. The kept usage counts.
    UsageEdited {
        /// The run.
        run: RunId,
        /// The usage that was kept.
        kept: Usage,
        /// The usage in the database.
        stored: Usage,
    },
    /// A process of a killed run was still running, and was ended.
    LeftoverEnded {
        /// Its number.
        pid: u32,
    },
    /// The terms could not be kept, so the next resume has nothing to compare with.
    NotKept {
        /// The run.
        run: RunId,
        /// The error.
        why: io::Error,
    },
}

impl fmt::Display for RunWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TermEdited { run, name, kept, stored } => write!(
                f,
                "run {run}: {name} was {kept:?} and is {stored:?} in harness.db: the database was edited"
            ),
            Self::UsageEdited { run, kept, stored } => write!(
                f,
                "run {run}: it had used {} and harness.db has {}: the database was edited, and the \
                 larger amount counts",
                words(*kept),
                words(*stored)
            ),
            Self::LeftoverEnded { pid } => {
                write!(f, "ended a process that a killed run left: pid={pid}")
            }
            Self::NotKept { run, why } => {
                write!(f, "the terms of run {run} cannot be stored: {why}")
            }
        }
    }
}

impl KeptTerms {
    /// Returns the terms of the runs of `root`, in the user's state directory.
    pub fn of(root: &Path, state_home: &Path) -> Self {
        Self { folder: Outside::of_root(root, state_home).terms() }
    }

    /// Returns the differences between the row and the terms that were kept when it was last
    /// resumed.
    pub(super) fn differences(&self, row: &Run) -> Vec<RunWarning> {
        let Some(kept) = self.load(&row.id) else { return Vec::new() };
        let both = kept.shown().into_iter().zip(StoredTerms::of(row).shown());
        let differ = both.filter(|((_, kept), (_, stored))| kept != stored);
        let mut warnings: Vec<_> = differ
            .map(|((name, kept), (_, stored))| {
                let run = row.id.clone();
                RunWarning::TermEdited { run, name, kept, stored }
            })
            .collect();
        let used = Usage::from(kept.used);
        if used.at_least(row.usage) != row.usage {
            let (run, stored) = (row.id.clone(), row.usage);
            warnings.push(RunWarning::UsageEdited { run, kept: used, stored });
        }
        warnings
    }

    /// Returns the smallest usage that the run can have, whatever the database has.
    pub(super) fn used(&self, id: &RunId) -> Option<Usage> {
        self.load(id).map(|kept| kept.used.into())
    }

    /// Stores the usage. A failure gives no warning, because there would be one for each step.
    pub(super) fn spent(&self, id: &RunId, usage: Usage) {
        if let Some(mut kept) = self.load(id) {
            kept.used = Usage::from(kept.used).at_least(usage).into();
            _ = self.write(id, &kept);
        }
    }

    /// Stores the terms. If that fails the run goes on, and the next resume has nothing to compare
    /// with.
    pub(super) fn keep(&self, row: &Run) -> Result<(), RunWarning> {
        let used = self.used(&row.id).unwrap_or_default().at_least(row.usage).into();
        let written = self.write(&row.id, &StoredTerms { used, ..StoredTerms::of(row) });
        written.map_err(|why| RunWarning::NotKept { run: row.id.clone(), why })
    }

    fn load(&self, id: &RunId) -> Option<StoredTerms> {
        serde_json::from_slice(&fs::read(self.file(id)).ok()?).ok()
    }

    /// Writes the file without waiting for the disk. After a power cut the database still has the
    /// same values.
    fn write(&self, id: &RunId, terms: &StoredTerms) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut made = tempfile::NamedTempFile::new_in(&self.folder)?;
        made.write_all(&serde_json::to_vec(terms)?)?;
        made.persist(self.file(id)).map_err(|failed| failed.error)?;
        Ok(())
    }

    fn file(&self, id: &RunId) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredTerms {
    max_iterations: u32,
    max_cost_usd: Option<f64>,
    max_tokens: Option<u64>,
    max_duration_seconds: Option<u64>,
    verify: Option<String>,
    completion_promise: String,
    #[serde(default)]
    used: Used,
}

/// The highest usage that any process has seen of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Used {
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: Option<f64>,
}

impl From<Usage> for Used {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens, output_tokens, cost_usd } = usage;
        Self { input_tokens, output_tokens, cost_usd }
    }
}

impl From<Used> for Usage {
    fn from(used: Used) -> Self {
        let Used { input_tokens, output_tokens, cost_usd } = used;
        Self { input_tokens, output_tokens, cost_usd }
    }
}

impl StoredTerms {
    fn of(run: &Run) -> Self {
        Self {
            used: run.usage.into(),
            max_iterations: run.limits.max_iterations,
            max_cost_usd: run.limits.max_cost_usd,
            max_tokens: run.limits.max_tokens,
            max_duration_seconds: run.limits.max_duration_seconds,
            verify: run.verify.clone(),
            completion_promise: run.completion_promise.clone(),
        }
    }

    fn shown(&self) -> [(&'static str, String); 6] {
        [
            ("max_iterations", self.max_iterations.to_string()),
            ("max_cost", shown(self.max_cost_usd.as_ref())),
            ("max_tokens", shown(self.max_tokens.as_ref())),
            ("max_duration", shown(self.max_duration_seconds.as_ref())),
            ("verify", shown(self.verify.as_ref())),
            ("completion_promise", self.completion_promise.clone()),
        ]
    }
}

fn shown(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "none".to_owned(), ToString::to_string)
}

fn words(usage: Usage) -> String {
    let tokens = usage.tokens();
    match usage.cost_usd {
        Some(cost) => format!("{cost:.2} USD and {tokens} tokens"),
        None => format!("{tokens} tokens"),
    }
}
