//! The work tree of a client, in which a daemon or a command without a host judges its work.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use harness::{
    core::{
        CommitId, Task, TreeId,
        machine::judge::{Fault, NotDone},
    },
    workspace::{Base, Bring, Filters, GitWorkspace, Workspace, WorkspaceError, glance},
};

use super::Site;

/// The work tree of a client. Git searches it only when it is needed.
pub struct ClientTree {
    directory: PathBuf,
    root: PathBuf,
    filters: Filters,
    repositories: Arc<Repositories>,
    bring: Bring,
    found: OnceLock<Arc<GitWorkspace>>,
}

/// The state that claims and completions share: repositories found so far, and the tree of a
/// commit.
#[derive(Debug, Default)]
pub struct Repositories {
    /// The directory in which the settings of claims are recorded.
    records: Option<PathBuf>,
    found: Mutex<HashMap<PathBuf, GitWorkspace>>,
    last: Mutex<Option<(CommitId, TreeId)>>,
}

impl Repositories {
    /// Records settings of git in this directory of the user; with `None`, they are not recorded.
    pub fn recording_in(records: Option<PathBuf>) -> Self {
        Self { records, ..Self::default() }
    }

    fn find(&self, directory: &Path, root: &Path) -> Result<GitWorkspace, WorkspaceError> {
        let found = locked(&self.found).get(directory).cloned();
        if let Some(found) = found.filter(|found| glance::is_work_tree(found.top_level())) {
            return Ok(found);
        }
        let found = GitWorkspace::discover(directory, root, Filters::Off)?;
        let found = match &self.records {
            Some(records) => found.recording_in(records.clone()),
            None => found,
        };
        locked(&self.found).insert(directory.to_owned(), found.clone());
        Ok(found)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientTree {
    /// Describes the tree to judge. `own` is the work tree of the judging process. A claim may name
    /// another work tree, but only one of the same repository, because its worker can edit the
    /// ledger.
    pub fn new(
        own: &Path,
        claimed: Option<&Path>,
        root: &Path,
        filters: Filters,
        repositories: Arc<Repositories>,
    ) -> Result<Self, ForeignTree> {
        let directory = match claimed {
            Some(claimed) if !glance::is_work_tree_of(own, claimed) => {
                return Err(ForeignTree { claimed: claimed.to_owned(), own: own.to_owned() });
            }
            Some(claimed) => claimed,
            None => own,
        };
        Ok(Self {
            directory: directory.to_owned(),
            root: root.to_owned(),
            filters,
            repositories,
            bring: Bring::default(),
            found: OnceLock::new(),
        })
    }

    /// Sets the files that are added to clean checkouts because git does not store them.
    #[must_use]
    pub fn bringing(self, bring: Bring) -> Self {
        Self { bring, ..self }
    }

    /// Records git's settings for a claim that was just made, if its work will be judged by a check
    /// and there is a commit to compare with.
    pub fn record_settings(&self, task: &Task) -> Result<(), WorkspaceError> {
        match (task.epoch, task.check(), &task.started_at_commit) {
            (Some(epoch), Some(_), Some(_)) => self.git()?.record_settings(&task.id, epoch),
            (_, _, _) => Ok(()),
        }
    }

    fn git(&self) -> Result<Arc<GitWorkspace>, WorkspaceError> {
        if let Some(found) = self.found.get() {
            return Ok(Arc::clone(found));
        }
        let found = self.repositories.find(&self.directory, &self.root)?;
        let found = Arc::new(found.anew(self.filters).bringing(self.bring.clone()));
        Ok(Arc::clone(self.found.get_or_init(|| found)))
    }
}

/// A claim names a folder that is no work tree of this repository.
#[derive(Debug, thiserror::Error)]
#[error("the claim names {}, which is not a work tree of the repository in {}", claimed.display(), own.display())]
pub struct ForeignTree {
    /// The work tree that the ledger names.
    pub claimed: PathBuf,
    /// The work tree of the judging process.
    pub own: PathBuf,
}

impl From<ForeignTree> for NotDone {
    fn from(why: ForeignTree) -> Self {
        let hint = "give it up with `harness task release`, then claim the task here";
        Self { fault: Fault::Config, message: why.to_string(), hints: vec![hint.to_owned()] }
    }
}

impl Site for ClientTree {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn head(&self) -> Option<CommitId> {
        glance::head(&self.directory)
    }

    fn head_at_once(&self) -> Option<Option<CommitId>> {
        glance::head_at_once(&self.directory)
    }

    fn workspace(&self) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        Ok(self.git()?)
    }

    fn base(&self, task: &Task) -> Result<Option<Base>, WorkspaceError> {
        if task.started_at_commit.is_none() {
            return Ok(None);
        }
        let top_level = self.git()?.top_level().to_owned();
        let base = Base::of_claim(task, &top_level);
        // Clients may change branches.
        Ok(base.map(|base| Base { branch: None, worktree: top_level, ..base }))
    }

    /// Returns the base for judging. A completion by force, or of a claim without a commit, is
    /// compared with HEAD.
    fn judged_from(&self, task: &Task) -> Result<Option<Base>, WorkspaceError> {
        let Some(head) = self.head() else { return Ok(None) };
        if let Some(base) = self.base(task)? {
            return Ok(Some(base));
        }
        Ok(Some(Base {
            commit: head,
            branch: None,
            untracked: None,
            worktree: self.git()?.top_level().to_owned(),
            epoch: task.epoch,
            claimed_at: task.claimed_at(),
        }))
    }

    fn uncommitted(&self, commit: &CommitId, tree: &TreeId) -> Result<Vec<String>, WorkspaceError> {
        self.git()?.between(commit, tree)
    }

    /// Commits on the branch that is checked out, whatever branch the claim was made on.
    fn commit(
        &self,
        task: &Task,
        tree: Option<&TreeId>,
        message: &str,
    ) -> Result<CommitId, WorkspaceError> {
        let git = self.git()?;
        let base = Base {
            commit: self.head().ok_or(WorkspaceError::NoCommits)?,
            branch: git.branch(),
            untracked: None,
            worktree: git.top_level().to_owned(),
            epoch: task.epoch,
            claimed_at: task.claimed_at(),
        };
        match tree {
            Some(tree) => git.commit_tree(&base, tree, message),
            None => git.commit(&base, message),
        }
    }

    fn tree_of(&self, commit: &CommitId) -> Result<Option<TreeId>, WorkspaceError> {
        let mut last = locked(&self.repositories.last);
        if let Some((_, tree)) = last.as_ref().filter(|(of, _)| of == commit) {
            return Ok(Some(tree.clone()));
        }
        let found = self.git().and_then(|workspace| workspace.tree_of(commit)).ok();
        if let Some(tree) = &found {
            *last = Some((commit.clone(), tree.clone()));
        }
        Ok(found)
    }
}
