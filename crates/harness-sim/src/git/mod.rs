//! A simulated [`Workspace`](harness::workspace::Workspace): a repository in memory that can stop between any two steps.
//!
//! The model lies behind an `Arc`, so it survives a simulated crash as a disk would. Problems of a
//! real repository that are not steps of ours (filters, locks, links) are not modelled.

mod candidate;
mod model;
mod port;
mod rescue;
mod settings;
mod shared;
mod trees;
mod undo;
mod user;

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness::workspace::{Base, OwnFiles, Sight, WorkspaceError};
use harness_core::{CommitId, TreeId};

pub use model::{Files, Head, Model, Settings, SimCommit};
pub use shared::SimRepository;
pub(crate) use user::repository;

/// Called before every change with the name of the step; an error stops the process there.
pub type Hook = Arc<dyn Fn(&'static str) -> io::Result<()> + Send + Sync>;

/// The error of a simulated crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("simulated crash before {step}")]
pub struct Crash {
    pub step: &'static str,
}

impl Crash {
    /// Returns the error that a hook uses to crash.
    pub fn before(step: &'static str) -> io::Error {
        io::Error::other(Self { step })
    }

    /// Returns the crash behind an error, if it was one.
    pub fn behind(error: &WorkspaceError) -> Option<Self> {
        let WorkspaceError::Io(error) = error else { return None };
        error.get_ref()?.downcast_ref().copied()
    }
}

/// One handle on a simulated repository. Clones share the model.
#[derive(Clone)]
pub struct SimGit {
    model: Arc<Mutex<Model>>,
    hook: Hook,
    own: OwnFiles,
    top_level: PathBuf,
    /// The last candidate of this process, and HEAD at that time.
    known: Arc<Mutex<Option<(TreeId, CommitId)>>>,
    /// The last look of this process, while nothing has run since.
    seen: Arc<Mutex<Option<Model>>>,
}

impl SimGit {
    pub fn new(hook: Hook) -> Self {
        let top_level = PathBuf::from(trees::MAIN_TREE);
        let own = OwnFiles::new(&top_level, &top_level);
        let (known, seen) = (Arc::default(), Arc::default());
        Self { model: Arc::default(), hook, own, top_level, known, seen }
    }

    /// Returns the same repository for another process with its own hook.
    pub fn with_hook(&self, hook: Hook) -> Self {
        Self { hook, known: Arc::default(), seen: Arc::default(), ..self.clone() }
    }

    /// Returns the same repository, seen from another of its work trees.
    pub fn at(&self, tree: &Path) -> Self {
        let (known, seen) = (Arc::default(), Arc::default());
        Self { top_level: tree.to_owned(), known, seen, ..self.clone() }
    }

    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        model.turn_to(&self.top_level);
        model
    }

    fn seen(&self) -> MutexGuard<'_, Option<Model>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current state or the last look. Staging and checking out make the next look a
    /// fresh one.
    fn view(&self, sight: Sight) -> Model {
        let model = self.model();
        let holds = |seen: &Model| seen.index == model.index && seen.head == model.head;
        let last = self.seen().clone().filter(|seen| sight == Sight::Last && holds(seen));
        let view = last.unwrap_or_else(|| model.seen());
        *self.seen() = Some(view.clone());
        view
    }

    /// Performs one step if the hook allows it.
    fn op<T>(
        &self,
        step: &'static str,
        change: impl FnOnce(&mut Model) -> T,
    ) -> Result<T, WorkspaceError> {
        (self.hook)(step)?;
        Ok(change(&mut self.model()))
    }

    fn right_place(&self, base: &Base) -> Result<(), WorkspaceError> {
        if base.worktree != self.top_level {
            return Err(WorkspaceError::WrongWorktree {
                claimed: base.worktree.clone(),
                here: self.top_level.clone(),
            });
        }
        if !self.model().commits.contains_key(&base.commit) {
            return Err(WorkspaceError::NoSuchCommit { commit: base.commit.clone() });
        }
        Ok(())
    }

    fn recorded(&self, base: &Base) -> Files {
        let tree = base.untracked.as_ref();
        tree.and_then(|tree| self.model().trees.get(tree).cloned()).unwrap_or_default()
    }

    /// Returns HEAD to the claimed branch, or to its detached commit.
    fn return_to_claimed_branch(&self, base: &Base) -> Result<(), WorkspaceError> {
        let current = self.model().branch();
        if current == base.branch {
            return Ok(());
        }
        let head =
            base.branch.clone().map_or_else(|| Head::Detached(base.commit.clone()), Head::Branch);
        self.op("head", |model| model.head = head)
    }

    /// `reset --hard`: work tree file by file, then the index, then the branch.
    fn reset(&self, commit: &CommitId) -> Result<(), WorkspaceError> {
        let (target, tracked) = {
            let model = self.model();
            (model.files_of(commit), model.index.clone())
        };
        let paths: BTreeSet<_> = target.keys().chain(tracked.keys()).cloned().collect();
        for path in paths.into_iter().filter(|path| !self.own.own(path.as_bytes())) {
            self.set_file("reset file", &path, target.get(&path))?;
        }
        self.op("reset index", |model| model.index = target)?;
        self.op("reset branch", |model| model.set_head(commit.clone()))
    }

    /// Returns whether the file had to change.
    fn set_file(
        &self,
        step: &'static str,
        path: &str,
        content: Option<&Vec<u8>>,
    ) -> Result<bool, WorkspaceError> {
        if self.model().work.get(path) == content {
            return Ok(false);
        }
        self.op(step, |model| match content {
            Some(bytes) => drop(model.work.insert(path.to_owned(), bytes.clone())),
            None => drop(model.work.remove(path)),
        })?;
        Ok(true)
    }

    /// Returns the files to be committed; see the port.
    fn files_to_commit(&self, base: &Base, model: &Model) -> Files {
        let recorded = self.recorded(base);
        let head = model.head_files();
        let mut files = model.snapshot(&self.own);
        files.retain(|path, _| !recorded.contains_key(path) || head.contains_key(path));
        let ours = head.into_iter().filter(|(path, _)| self.own.own(path.as_bytes()));
        files.extend(ours);
        files
    }

    fn claim_branch_for(&self, base: &Base, head: &CommitId) -> Result<(), WorkspaceError> {
        let (current, history, tip) = {
            let model = self.model();
            let tip = base.branch.as_ref().and_then(|name| model.branches.get(name).cloned());
            (model.branch(), model.history(head), tip)
        };
        let found = current.clone().unwrap_or_else(|| "a detached commit".to_owned());
        if !history.contains(&base.commit) {
            return Err(WorkspaceError::NotDescendant { found, base: base.commit.clone() });
        }
        if current == base.branch {
            return Ok(());
        }
        let Some(branch) = base.branch.clone() else {
            return self.op("head", |model| model.head = Head::Detached(head.clone()));
        };
        if tip.is_some_and(|tip| !history.contains(&tip)) {
            return Err(WorkspaceError::Unsafe {
                what: format!("{branch} has commits that {found} has not"),
                hint: format!("merge {branch} into it, or commit on {branch}"),
            });
        }
        self.op("forward", |model| drop(model.branches.insert(branch.clone(), head.clone())))?;
        self.op("head", |model| model.head = Head::Branch(branch))
    }
}
