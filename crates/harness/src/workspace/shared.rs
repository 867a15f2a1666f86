//! The port to a repository that several workers share: a work tree for each worker, and the branch
//! on which their results land.
//!
//! Every method can be repeated after a crash at any step. Commands of other processes, of the user
//! and of a process that was frozen may come between any two calls.

use std::{path::Path, sync::Arc};

use harness_core::{CommitId, Epoch, TaskId, Timestamp, TreeId, WorkerId, command::LandedResult};

use super::{Base, Workspace, WorkspaceError};

pub use harness_core::line::LANDED_BRANCH;

/// Returns the branch on which an attempt works.
pub fn task_branch(task: &TaskId, epoch: Epoch) -> String {
    format!("harness/{task}.{epoch}")
}

/// Returns the ref that keeps the original work of an attempt while its result is on the way to land.
pub fn work_ref(task: &TaskId, epoch: Epoch) -> String {
    format!("refs/harness/work/{task}.{epoch}")
}

/// The prefix of the tokens of landings.
pub(super) const TOKENS: &str = "refs/harness/land/";

/// Returns the ref that fences the landing of a task. Without it nothing lands.
pub fn land_token(task: &TaskId) -> String {
    format!("{TOKENS}{task}")
}

/// The operations on a repository that several workers share. The calls block.
///
/// The methods that get a worker take the lock of that worker's tree and refuse if another process
/// holds it. The lock is free after [`SharedRepository::close`] and when the value is dropped.
pub trait SharedRepository: Send + Sync {
    /// Refuses a repository in which no worker can have a work tree, each time with a hint: one
    /// without a commit, or with a branch `harness`, which forbids branches below that name. First it
    /// brings a move of the main tree to an end that a process left which is gone.
    fn check(&self) -> Result<(), WorkspaceError>;

    /// Returns the name of the remote that has the target; `None` if it is a branch of this
    /// repository.
    fn remote(&self) -> Option<String> {
        None
    }

    /// Brings what this clone knows of the branches on which results land up to date. A repository
    /// whose target is its own has nothing to do.
    fn refresh(&self, branch: &str) -> Result<(), WorkspaceError> {
        let _ = branch;
        Ok(())
    }

    /// Returns the branch on which results land: `wanted`, which is created at HEAD of the main tree
    /// if it is missing, or else the branch of the main tree. It is [`LANDED_BRANCH`], created at
    /// HEAD, if HEAD of the main tree is on no branch.
    fn target(&self, wanted: Option<&str>) -> Result<String, WorkspaceError>;

    /// Returns the commit of a branch; `None` if there is no such branch.
    fn tip(&self, branch: &str) -> Result<Option<CommitId>, WorkspaceError>;

    /// Creates [`LANDED_BRANCH`] at the tip of `target`, unless it exists. Returns its commit.
    /// Refuses if neither branch exists.
    fn divert(&self, target: &str) -> Result<CommitId, WorkspaceError>;

    /// Makes the work tree of `worker` ready for a task that starts at `commit`: creates it if it is
    /// missing, saves under `refs/harness/rescue/` what a reset would lose, and resets and cleans
    /// it. HEAD is then on no branch. Ignored files stay. The files that git does not bring are
    /// copied or linked. Commits that a branch holds need no rescue. An unknown commit is refused
    /// before anything changes.
    fn reset(&self, worker: &WorkerId, commit: &CommitId) -> Result<WorkerTree, WorkspaceError>;

    /// Records that the init script ran in the tree of `worker`, so that it is due again only after a
    /// change. A repository without such scripts has nothing to record.
    fn init_ran(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        let _ = worker;
        Ok(())
    }

    /// Puts HEAD of the worker's tree on the branch [`task_branch`], at its current commit. The
    /// branch is created, or moved there if it exists.
    fn start_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<(), WorkspaceError>;

    /// Brings the state of another worker's tree into the tree of `worker`: the same HEAD, on the
    /// branch of `epoch`, and the same uncommitted and untracked files. What the other tree held is
    /// saved under `refs/harness/rescue/<task>/<attempt>` in any case. The other tree stays as it
    /// is. If [`work_ref`] of the dead attempt exists, its result was on the way to land: then exactly
    /// that commit is brought, because HEAD of the other tree may hold results of others below it.
    /// Returns `None` if that tree cannot be read, does not descend from the base, or if the branch of
    /// the dead attempt does not exist, so that the attempt never began. The tree
    /// of `worker` is created if it is missing, and what it held is saved. It may be the same tree,
    /// which a worker finds again after a crash.
    fn transplant(
        &self,
        worker: &WorkerId,
        dead: &Dead<'_>,
        epoch: Epoch,
    ) -> Result<Option<WorkerTree>, WorkspaceError>;

    /// Puts the work of an attempt on top of another commit. The commits of the attempt stay
    /// separate, or become one; each gets the trailer `Harness-Task: <task>.<epoch>`. With a result,
    /// the branch of the attempt and the worker's tree are at it. With a conflict, nothing changes.
    /// Before anything moves, [`work_ref`] keeps the original work. A repeated rebase starts from that
    /// work again.
    /// The same rebase always gives the same commit, so that an earlier verdict on it stands.
    /// Refuses work that does not descend from its base.
    fn rebase(&self, worker: &WorkerId, rebase: &Rebase) -> Result<Rebased, WorkspaceError>;

    /// Sets the token that allows one landing of `to`. It replaces an older token of the task.
    fn set_token(&self, task: &TaskId, to: &CommitId) -> Result<(), WorkspaceError>;

    /// Removes the token if it still names `to`, so that this landing can never happen any more.
    fn void_token(&self, task: &TaskId, to: &CommitId) -> Result<Token, WorkspaceError>;

    /// Moves the target, if the token is there and the target has not moved. If the target is
    /// checked out in the main tree, that tree moves with it, and only if it is clean. A landing that
    /// is repeated after it was done is [`Landed::Fenced`], because its token is used up.
    fn land(&self, swap: &Swap) -> Result<Landed, WorkspaceError>;

    /// Returns whether `branch` contains `commit`.
    fn contains(&self, branch: &str, commit: &CommitId) -> Result<bool, WorkspaceError>;

    /// Returns the tokens of landings that may happen, each as the task and the result.
    fn tokens(&self) -> Result<Vec<(TaskId, CommitId)>, WorkspaceError>;

    /// Returns the results on `branches` that were made since then, by the trailers of their commits, the
    /// newest of each branch first. A branch that is missing has none.
    fn landed_results(
        &self,
        branches: &[String],
        since: Option<Timestamp>,
    ) -> Result<Vec<LandedResult>, WorkspaceError>;

    /// Returns the files that differ between two commits, sorted.
    fn files_between(&self, from: &CommitId, to: &CommitId) -> Result<Vec<String>, WorkspaceError>;

    /// Finishes or takes back a landing that a crash cut short after it had moved files of the main
    /// tree: if every file there has its contents of `from` or of `to`, the tree is brought to
    /// the commit that its branch names. Otherwise, and if the main tree is not on the target or
    /// the target is at neither commit, nothing is touched.
    fn finish_main_tree(&self, swap: &Swap) -> Result<(), WorkspaceError>;

    /// Brings the results from [`LANDED_BRANCH`] to `target` and removes that branch, if this is a
    /// fast-forward and the main tree is clean. Where the target is that branch itself, nothing
    /// changes.
    fn take_in(&self, target: &str) -> Result<TakenIn, WorkspaceError>;

    /// Saves the unfinished work in the tree of `worker` where a worker of another machine finds it. A
    /// repository that only this machine has saves nothing.
    fn back_up(&self, worker: &WorkerId, backup: &Backup<'_>) -> Result<BackedUp, WorkspaceError> {
        let _ = (worker, backup);
        Ok(BackedUp::Not)
    }

    /// Brings the branch of the main tree, if it follows `target` elsewhere, up to date, if this is a
    /// fast-forward and the tree is clean. Where the target is a branch of this repository, there is
    /// nothing to do.
    fn follow(&self, target: &str) -> Result<(), WorkspaceError> {
        let _ = target;
        Ok(())
    }

    /// Returns what people should know of calls since the last time, for the log.
    fn take_warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Deletes the branch of an attempt and its [`work_ref`]. HEAD of the worker's tree is then on no
    /// branch. A commit that is neither on `target` nor under `refs/harness/rescue/` is saved there
    /// first. Nothing changes while another process has the branch in its tree.
    fn end_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
        target: &str,
    ) -> Result<(), WorkspaceError>;

    /// Saves what would be lost and removes the work tree of `worker`. Its branches stay.
    fn close(&self, worker: &WorkerId) -> Result<(), WorkspaceError>;
}

/// The work tree of a worker, ready for a task.
#[derive(Clone)]
pub struct WorkerTree {
    /// The work tree.
    pub workspace: Arc<dyn Workspace>,
    /// Whether the init script has to run in it, because the tree is new or the script has changed.
    pub init: InitScript,
}

/// Whether the init script has to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitScript {
    /// It has to run.
    Due,
    /// It ran here, and is the same.
    Ran,
}

/// An attempt whose worker is gone.
#[derive(Debug, Clone, Copy)]
pub struct Dead<'a> {
    /// The work tree that its claim names.
    pub tree: &'a Path,
    /// The task.
    pub task: &'a TaskId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The state from which it started.
    pub base: &'a Base,
}

/// Whether unfinished work is where a worker of another machine finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackedUp {
    /// It is.
    Saved,
    /// It is not: it is not shared, or the server refused it.
    Not,
}

/// An attempt whose unfinished work is saved.
#[derive(Debug, Clone, Copy)]
pub struct Backup<'a> {
    /// The task.
    pub task: &'a TaskId,
    /// The epoch of the attempt.
    pub epoch: Epoch,
    /// The commit from which it started.
    pub base: &'a CommitId,
}

/// The work to put on top of another commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebase {
    /// The task.
    pub task: TaskId,
    /// The epoch of the attempt.
    pub epoch: Epoch,
    /// The commit below the work.
    pub base: CommitId,
    /// The last commit of the work, which descends from `base`.
    pub work: CommitId,
    /// The commit to put it on.
    pub onto: CommitId,
    /// The result of the last rebase, if there was one. Work that changes nothing on top of another
    /// commit leaves HEAD at that commit.
    pub placed: Option<CommitId>,
    /// Whether the commits stay separate.
    pub style: LandStyle,
    /// The message of a single commit.
    pub message: String,
}

/// Whether the commits of an attempt stay separate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LandStyle {
    /// They stay separate, without merges.
    #[default]
    Rebase,
    /// They become one.
    Squash,
}

/// The result of a rebase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebased {
    /// The work is on top of the other commit.
    Done {
        /// The last commit of the work, which is `onto` if nothing was changed.
        commit: CommitId,
        /// Its tree.
        tree: TreeId,
    },
    /// The same lines were changed.
    Conflict {
        /// The files, sorted.
        files: Vec<String>,
    },
}

/// Whether a token was still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// It was there and is removed: the commit has not landed and never will.
    Voided,
    /// There was none: the commit has landed if the target contains it.
    Missing,
}

/// The move of a branch from one commit to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// The task whose token allows it.
    pub task: TaskId,
    /// The branch.
    pub target: String,
    /// The commit that it names before.
    pub from: CommitId,
    /// The commit that it names after, which descends from `from`.
    pub to: CommitId,
}

/// The result of a landing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Landed {
    /// The branch has moved, and the token is gone.
    Done,
    /// The branch is not at `from`, or is gone. Nothing has changed.
    TargetMoved,
    /// The token is gone: the task was recovered by another worker. Nothing has changed.
    Fenced,
    /// The target is checked out in a tree that must not be touched, or is on a server that refuses
    /// the move. Nothing has changed.
    TreeInUse {
        /// The reason, for people.
        why: String,
    },
}

/// The result of taking results from [`LANDED_BRANCH`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenIn {
    /// There was no such branch.
    Nothing,
    /// The target has all results.
    Done,
    /// The results stay on that branch.
    Kept {
        /// The reason, for people.
        why: String,
        /// The number of commits that the target lacks.
        ahead: u32,
    },
}
