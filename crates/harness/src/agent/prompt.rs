//! What a coding agent is given for one execution.

use std::{ffi::OsString, fs::File, io, io::Write as _, path::PathBuf};

use harness_core::agent::KeptContext;
use tempfile::TempPath;

use crate::{
    home::{Home, folder::Folder},
    process::Limits,
};

/// One prompt in one context, fresh or kept.
///
/// ```
/// use harness::agent::Prompt;
///
/// let prompt = Prompt::new("Make the tests pass.")
///     .in_tree("/home/me/project")
///     .environment(std::env::vars_os());
/// assert_eq!(prompt.folder.to_str(), Some("/home/me/project/.harness"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
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
    /// A prompt for a fresh context, in the current directory, with an empty environment, without
    /// limits on time and cost, and with names that no other execution has.
    pub fn new(text: impl Into<String>) -> Prompt {
        let work_tree = PathBuf::from(".");
        let name = uuid::Uuid::now_v7().to_string();
        Prompt {
            text: text.into(),
            instructions: None,
            promise: String::new(),
            folder: Home::of(&work_tree).folder(),
            work_tree,
            environment: Vec::new(),
            limits: Limits::default(),
            cost_left_usd: None,
            kept: None,
            run_id: name.clone(),
            name,
        }
    }

    /// The work tree that the agent runs in. The files of the execution go to `.harness` in it,
    /// unless [`folder`](Self::folder) was called.
    #[must_use]
    pub fn in_tree(mut self, work_tree: impl Into<PathBuf>) -> Prompt {
        let moves = self.folder == Home::of(&self.work_tree).folder();
        self.work_tree = work_tree.into();
        if moves {
            self.folder = Home::of(&self.work_tree).folder();
        }
        self
    }

    /// The instructions of the task, for agents that are no models. `shell` runs them as a script.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<Option<String>>) -> Prompt {
        self.instructions = instructions.into();
        self
    }

    /// The text that an agent ends with when it considers its work done.
    #[must_use]
    pub fn promise(mut self, promise: impl Into<String>) -> Prompt {
        self.promise = promise.into();
        self
    }

    /// The variables that an adapter chooses from, mostly [`std::env::vars_os`]. The agent sees
    /// nothing else of your environment.
    #[must_use]
    pub fn environment(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Prompt {
        self.environment = variables.into_iter().collect();
        self
    }

    /// Limits on time and silence.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Prompt {
        self.limits = limits;
        self
    }

    /// The cost that this execution may cause, in US dollars. `None` is no limit.
    #[must_use]
    pub fn cost_left_usd(mut self, cost: impl Into<Option<f64>>) -> Prompt {
        self.cost_left_usd = cost.into();
        self
    }

    /// Continues in the context of an earlier execution.
    #[must_use]
    pub fn kept(mut self, kept: impl Into<Option<KeptContext>>) -> Prompt {
        self.kept = kept.into();
        self
    }

    /// The run that this execution is part of.
    #[must_use]
    pub fn run_id(mut self, run_id: impl Into<String>) -> Prompt {
        self.run_id = run_id.into();
        self
    }

    /// The name of the execution's files. No other execution with the same folder may have it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Prompt {
        self.name = name.into();
        self
    }

    /// The folder of transcripts, prompts and records of processes.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Prompt {
        self.folder = folder.into();
        self
    }

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
