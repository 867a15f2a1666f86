//! The input of a coding agent for one execution.

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
    /// The whole text for the model.
    pub text: String,
    /// The task's instructions (for an objective: the objective), for agents that are not models.
    pub instructions: Option<String>,
    /// The text that must be in the final text as the promise.
    pub promise: String,
    /// The directory in which the agent runs.
    pub work_tree: PathBuf,
    /// The caller's environment with the `HARNESS_*` variables of this execution. An adapter passes
    /// on only what its agent may see, and hides the secrets of all of it.
    pub environment: Vec<(OsString, OsString)>,
    /// The limits of this execution alone.
    pub limits: Limits,
    /// The cost that this execution may cause, if it is limited.
    pub cost_left_usd: Option<f64>,
    /// The context of an earlier execution of the same agent. This one continues in it, if the
    /// agent reported a [session](harness_core::agent::AgentEvent::Session).
    pub kept: Option<KeptContext>,
    /// The id of the run, `HARNESS_RUN_ID`, the same for all its executions.
    pub run_id: String,
    /// The name for the files of this execution, which no other of the same `.harness` has.
    pub name: String,
    /// The `.harness` of the state root, for transcripts, prompts and the records of processes.
    pub folder: PathBuf,
}

impl Prompt {
    /// Creates a prompt for a fresh context, in the current directory, with an empty environment,
    /// without limits on time and cost, and with names that no other execution has.
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

    /// Sets the work tree that the agent runs in. The files of the execution go to `.harness` in
    /// it, unless [`folder`](Self::folder) was called.
    #[must_use]
    pub fn in_tree(mut self, work_tree: impl Into<PathBuf>) -> Prompt {
        let moves = self.folder == Home::of(&self.work_tree).folder();
        self.work_tree = work_tree.into();
        if moves {
            self.folder = Home::of(&self.work_tree).folder();
        }
        self
    }

    /// Sets the instructions of the task, for agents that are not models. `shell` runs them as a
    /// script.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<Option<String>>) -> Prompt {
        self.instructions = instructions.into();
        self
    }

    /// Sets the text that an agent ends with when it considers its work done.
    #[must_use]
    pub fn promise(mut self, promise: impl Into<String>) -> Prompt {
        self.promise = promise.into();
        self
    }

    /// Sets the variables that an adapter chooses from, usually [`std::env::vars_os`]. The agent
    /// sees nothing else of your environment.
    #[must_use]
    pub fn environment(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Prompt {
        self.environment = variables.into_iter().collect();
        self
    }

    /// Sets limits on time and silence.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Prompt {
        self.limits = limits;
        self
    }

    /// Sets the cost that this execution may cause, in US dollars. `None` means no limit.
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

    /// Sets the run that this execution is part of.
    #[must_use]
    pub fn run_id(mut self, run_id: impl Into<String>) -> Prompt {
        self.run_id = run_id.into();
        self
    }

    /// Sets the name of the execution's files. No other execution with the same folder may have it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Prompt {
        self.name = name.into();
        self
    }

    /// Sets the folder of transcripts, prompts and records of processes.
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

    /// Creates a file that only its owner can read, and that is removed with the execution.
    pub(super) fn file(&self, ending: &str, content: &str) -> io::Result<TempPath> {
        let folder = self.folder.join("prompts");
        let name = format!("{}.{ending}", self.name);
        Folder::ours(&folder)?.create(&name)?.write_all(content.as_bytes())?;
        let path = std::path::absolute(folder.join(name))?;
        TempPath::try_from_path(path)
    }

    /// Opens such a file again, to read what others write into it.
    pub(super) fn open(&self, ending: &str) -> io::Result<File> {
        let name = format!("{}.{ending}", self.name);
        let opened = Folder::ours(&self.folder.join("prompts"))?.open_to_read(&name)?;
        opened.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{name} is gone")))
    }
}
