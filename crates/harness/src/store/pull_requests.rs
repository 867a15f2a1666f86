//! The pull requests that runs opened, one small file for each run: `.harness/pull-requests/<run>.json`.

use std::{io, path::Path};

use harness_core::{RunId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::home::{Home, folder::Folder};

/// A limit far above the size of our files.
const BYTES_MAX: u64 = 64 * 1024;

/// A pull request with the results of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PullRequest {
    /// The run.
    pub run_id: RunId,
    /// The branch with the results.
    pub branch: String,
    /// The branch that is to get them.
    pub target: String,
    /// Its address; `None` if the command printed none.
    pub url: Option<String>,
    /// The time at which it was opened.
    pub opened_at: Timestamp,
}

impl PullRequest {
    /// Describes a pull request.
    pub fn new(run_id: RunId, branch: String, target: String, opened_at: Timestamp) -> Self {
        Self { run_id, branch, target, url: None, opened_at }
    }

    /// Stores it below `root`. It replaces what is stored about the same run.
    pub fn store(&self, root: &Path) -> io::Result<()> {
        let folder = Folder::ours(&Home::of(root).pull_requests())?;
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        folder.put(&name(&self.run_id), &text)?;
        Ok(())
    }

    /// Returns the pull requests of a root, oldest first. A file that cannot be read is left out.
    pub fn all(root: &Path) -> io::Result<Vec<Self>> {
        let Some(folder) = Folder::find(&Home::of(root).pull_requests())? else {
            return Ok(Vec::new());
        };
        let read = |name: &String| {
            let file = folder.open_to_read(name).ok()??;
            let mut text = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(file, BYTES_MAX), &mut text).ok()?;
            serde_json::from_slice::<Self>(&text).ok()
        };
        let mut found: Vec<Self> = folder.names()?.iter().filter_map(read).collect();
        found.sort_by(|a, b| (a.opened_at, &a.run_id).cmp(&(b.opened_at, &b.run_id)));
        Ok(found)
    }
}

fn name(run: &RunId) -> String {
    format!("{run}.json")
}
