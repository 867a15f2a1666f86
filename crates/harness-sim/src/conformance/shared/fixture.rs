//! The operations that a case needs on a repository with several work trees.

use std::{collections::BTreeMap, path::Path};

use harness::workspace::{
    Workspace,
    shared::{LandStyle, Rebase, Rebased, SharedRepository, Swap},
};
use harness_core::{CommitId, Epoch, TaskId, WorkerId};

use crate::conformance::workspace::Fixture;

/// One commit, as `git log` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedCommit {
    pub commit: CommitId,
    pub parents: Vec<CommitId>,
    pub message: String,
}

/// A repository, seen from the tree of the user.
pub trait SharedFixture: Fixture {
    /// Opens the repository as a process of its own.
    fn shared(&self) -> Box<dyn SharedRepository>;
    /// Returns the actions of an agent in another work tree.
    fn at(&self, tree: &Path) -> Box<dyn Fixture + '_>;
    /// `git switch`. It must succeed.
    fn switch(&self, branch: &str);
    /// Puts HEAD on a branch that has no commit yet.
    fn orphan(&self, branch: &str);
    /// Moves or creates a branch, and no work tree with it.
    fn move_branch(&self, branch: &str, commit: &CommitId);
    fn delete_branch(&self, branch: &str);
    /// Returns the commit that the token of a task names.
    fn token(&self, task: &TaskId) -> Option<CommitId>;
    /// Returns the original work of an attempt whose result is on its way to land.
    fn original_work(&self, task: &TaskId, epoch: Epoch) -> Option<CommitId>;
    /// Returns the commits of `to` that `from` does not have, newest first.
    fn log(&self, from: &CommitId, to: &CommitId) -> Vec<LoggedCommit>;
    /// Locks the index of the main tree for this move, as a process does that dies after it.
    fn die_in_move(&self, swap: &Swap);
    /// Merges a commit into HEAD of a work tree with a merge commit.
    fn merge_in(&self, tree: &Path, commit: &CommitId);
}

pub fn task() -> TaskId {
    TaskId::parse("task-1").unwrap()
}

pub fn worker(name: &str) -> WorkerId {
    WorkerId::parse(name).unwrap()
}

pub fn head(f: &dyn SharedFixture) -> CommitId {
    f.workspace().head().unwrap()
}

/// Returns the files of the main tree, except those of harness.
pub fn main_files(f: &dyn SharedFixture) -> BTreeMap<String, String> {
    f.files().into_iter().filter(|(path, _)| !path.starts_with(".harness/")).collect()
}

/// The main tree as a user sees it: files, staged names, branch and commit.
pub type MainTree = (BTreeMap<String, String>, Vec<String>, Option<String>, CommitId);

pub fn main_tree(f: &dyn SharedFixture) -> MainTree {
    (main_files(f), f.staged(), f.current_branch(), head(f))
}

pub fn is_clean(workspace: &dyn Workspace) -> bool {
    let status = workspace.status().unwrap();
    let theirs = |path: &&String| !path.starts_with(".harness/");
    status.changed.is_empty() && !status.untracked.iter().any(|path| theirs(&path))
}

/// Creates the tree of a worker at HEAD of the main tree, and the branch of `task-1` with epoch 1.
pub fn begin(
    f: &dyn SharedFixture,
    shared: &dyn SharedRepository,
    name: &str,
) -> std::sync::Arc<dyn Workspace> {
    let tree = shared.reset(&worker(name), &head(f)).unwrap();
    shared.start_branch(&worker(name), &task(), Epoch(1)).unwrap();
    tree.workspace
}

/// Describes the work of `task-1` with epoch 1 in a worker's tree, to be put on `onto`.
pub fn work(base: &CommitId, work: &CommitId, onto: &CommitId) -> Rebase {
    Rebase {
        task: task(),
        epoch: Epoch(1),
        base: base.clone(),
        work: work.clone(),
        onto: onto.clone(),
        placed: None,
        style: LandStyle::Rebase,
        message: "task-1: title".to_owned(),
    }
}

pub fn done(rebased: Rebased) -> CommitId {
    match rebased {
        Rebased::Done { commit, .. } => commit,
        Rebased::Conflict { files } => panic!("a conflict in {files:?}"),
    }
}

/// Commits a file in the tree of worker `w` as the result of `task-1`, on HEAD of the main tree.
pub fn result(
    f: &dyn SharedFixture,
    shared: &dyn SharedRepository,
    files: &[(&str, &str)],
) -> Swap {
    let from = head(f);
    let tree = begin(f, shared, "w");
    let agent = f.at(tree.top_level());
    for (path, text) in files {
        agent.write(path, text);
        agent.stage(path);
    }
    let commit = agent.commit_as(crate::conformance::workspace::AGENT, "the work");
    let to = done(shared.rebase(&worker("w"), &work(&from, &commit, &from)).unwrap());
    let target = f.current_branch().unwrap_or_else(|| "main".to_owned());
    Swap { task: task(), target, from, to }
}
