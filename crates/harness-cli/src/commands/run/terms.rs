//! The terms of a run (its limits and its verify command), kept outside of the work tree: the database
//! can be edited by the agent, and a resume says where it differs.

use std::{fs, io, io::Write, os::unix::fs::DirBuilderExt, path::PathBuf};

use harness::{core::Run, store::Outside};
use serde::{Deserialize, Serialize};

use crate::{environment::Environment, failure::Result, root::StateRoot, store::warn};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Terms {
    max_iterations: u32,
    max_cost_usd: Option<f64>,
    max_tokens: Option<u64>,
    max_duration_seconds: Option<u64>,
    verify: Option<String>,
    completion_promise: String,
}

impl Terms {
    fn of(run: &Run) -> Self {
        Self {
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

/// One small file for each run of a state root.
pub(super) struct Kept {
    folder: PathBuf,
}

impl Kept {
    pub(super) fn of_user(env: &Environment, root: &StateRoot) -> Result<Self> {
        let folder = Outside::of_root(root.path(), &env.state_home()?);
        Ok(Self { folder: folder.terms() })
    }

    /// What the row says otherwise than the terms that were kept when it was last taken up.
    pub(super) fn differences(&self, row: &Run) -> Vec<String> {
        let kept = fs::read(self.file(row)).ok();
        let kept = kept.and_then(|bytes| serde_json::from_slice::<Terms>(&bytes).ok());
        let Some(kept) = kept else { return Vec::new() };
        let both = kept.shown().into_iter().zip(Terms::of(row).shown());
        let differ = both.filter(|((_, was), (_, is))| was != is);
        differ
            .map(|((name, was), (_, is))| {
                format!(
                    "run {}: {name} was {was:?} and is {is:?} in harness.db: somebody edited it",
                    row.id
                )
            })
            .collect()
    }

    /// Without them the run goes on, and the next resume has nothing to compare with.
    pub(super) fn keep(&self, row: &Run) {
        if let Err(why) = self.write(row) {
            warn(&format!("the terms of run {} are not kept: {why}", row.id));
        }
    }

    fn write(&self, row: &Run) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut made = tempfile::NamedTempFile::new_in(&self.folder)?;
        made.write_all(&serde_json::to_vec(&Terms::of(row))?)?;
        made.persist(self.file(row)).map_err(|failed| failed.error)?;
        Ok(())
    }

    fn file(&self, row: &Run) -> PathBuf {
        self.folder.join(format!("{}.json", row.id))
    }
}
