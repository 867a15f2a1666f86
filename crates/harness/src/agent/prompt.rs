//! What a coding agent is given for one execution.

use std::{
    ffi::OsString,
    fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use harness_core::agent::KeptContext;
use tempfile::TempPath;

use crate::process::Limits;

/// One prompt in one context, fresh or kept.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// All that a model is told.
    pub text: String,
    /// The task's instructions (in an objective run: the objective), for agents that are no models.
    pub instructions: Option<String>,
    /// What keeps the promise when it stands in the final text.
    pub promise: String,
    /// Where the agent runs.
    pub work_tree: PathBuf,
    /// The caller's environment with the `HARNESS_*` of this execution. An adapter takes of it what
    /// its agent may see, and hides the secrets in all of it.
    pub environment: Vec<(OsString, OsString)>,
    /// Of this execution alone.
    pub limits: Limits,
    /// What this execution may cost, where that is limited.
    pub cost_left_usd: Option<f64>,
    /// What an earlier execution of the same agent left: this one goes on in it, if the agent told of
    /// a [session](harness_core::agent::AgentEvent::Session).
    pub kept: Option<KeptContext>,
    /// The same for all executions of a run: `HARNESS_RUN_ID`.
    pub run_id: String,
    /// Names the files of this execution: no other of the same `.harness` has it.
    pub name: String,
    /// `.harness` of the state root, for transcripts, prompts and the records of processes.
    pub folder: PathBuf,
}

impl Prompt {
    pub(super) fn transcripts(&self) -> PathBuf {
        self.folder.join("transcripts")
    }

    pub(super) fn records(&self) -> PathBuf {
        self.folder.join("processes")
    }

    /// A file that only its owner reads, and that goes with the execution.
    pub(super) fn file(&self, ending: &str, content: &str) -> io::Result<TempPath> {
        let folder = self.folder.join("prompts");
        fs::create_dir_all(&folder)?;
        let path = std::path::absolute(folder.join(format!("{}.{ending}", self.name)))?;
        remove_if_there(&path)?;
        let mut options = fs::OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?
            .write_all(content.as_bytes())?;
        TempPath::try_from_path(path)
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
