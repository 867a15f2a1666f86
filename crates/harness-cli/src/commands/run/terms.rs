//! The terms of a run (its limits and its verify command) and what it has used, kept outside of the work
//! tree: the database can be edited by the agent. A resume says where it differs, and what was used does
//! not become less.

use std::{fs, io, io::Write, os::unix::fs::DirBuilderExt, path::PathBuf};

use harness::{
    core::{Run, RunId, agent::Usage},
    store::Outside,
};
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
    #[serde(default)]
    used: Used,
}

/// The most that any process has seen of it.
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

impl Terms {
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

/// One small file for each run of a state root.
#[derive(Clone)]
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
        let Some(kept) = self.load(&row.id) else { return Vec::new() };
        let both = kept.shown().into_iter().zip(Terms::of(row).shown());
        let differ = both.filter(|((_, was), (_, is))| was != is);
        let mut lines: Vec<_> = differ
            .map(|((name, was), (_, is))| {
                format!(
                    "run {}: {name} was {was:?} and is {is:?} in harness.db: the database was edited",
                    row.id
                )
            })
            .collect();
        if Usage::from(kept.used).at_least(row.usage) != row.usage {
            let (was, is) = (words(kept.used.into()), words(row.usage));
            lines.push(format!(
                "run {}: it had used {was} and harness.db has {is}: the database was edited, \
                 and the larger amount counts",
                row.id
            ));
        }
        lines
    }

    /// What the run has used at least, whatever the database says.
    pub(super) fn used(&self, id: &RunId) -> Option<Usage> {
        self.load(id).map(|kept| kept.used.into())
    }

    /// Remembers what was used. It is not worth a warning for each step where that fails.
    pub(super) fn spent(&self, id: &RunId, usage: Usage) {
        if let Some(mut kept) = self.load(id) {
            kept.used = Usage::from(kept.used).at_least(usage).into();
            _ = self.write(id, &kept);
        }
    }

    fn load(&self, id: &RunId) -> Option<Terms> {
        serde_json::from_slice(&fs::read(self.file(id)).ok()?).ok()
    }

    /// Without them the run goes on, and the next resume has nothing to compare with.
    pub(super) fn keep(&self, row: &Run) {
        let used = self.used(&row.id).unwrap_or_default().at_least(row.usage).into();
        if let Err(why) = self.write(&row.id, &Terms { used, ..Terms::of(row) }) {
            warn(&format!("the terms of run {} cannot be stored: {why}", row.id));
        }
    }

    /// What a power cut takes is what the database has too: nothing waits for the disk.
    fn write(&self, id: &RunId, terms: &Terms) -> io::Result<()> {
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
