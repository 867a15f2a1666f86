//! What a coding agent is given for one execution.

use std::{ffi::OsString, fs::File, io, io::Write as _, path::PathBuf};

use harness_core::agent::KeptContext;
use tempfile::TempPath;

use crate::{home::folder::Folder, process::Limits};

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
        let name = format!("{}.{ending}", self.name);
        Folder::ours(&folder)?.create(&name)?.write_all(content.as_bytes())?;
        let path = std::path::absolute(folder.join(name))?;
        TempPath::try_from_path(path)
    }

    /// Such a file once more, to read what others write into it.
    pub(super) fn open(&self, ending: &str) -> io::Result<File> {
        let name = format!("{}.{ending}", self.name);
        let opened = Folder::ours(&self.folder.join("prompts"))?.open_to_read(&name)?;
        opened.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{name} is gone")))
    }
}
