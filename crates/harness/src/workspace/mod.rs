//! The workspace port: the operations that harness needs from version control.
//!
//! Every method can be repeated: a crash may come after any step, and recovery calls the same
//! methods again. Nothing here decides whether a task passed or failed.

mod aside;
mod candidate;
mod checkout;
mod commit;
mod contents;
mod discover;
mod error;
mod evidence;
mod filter;
mod fingerprint;
mod folders;
mod git;
#[doc(hidden)]
pub mod glance;
mod hidden;
mod history;
mod index;
mod index_file;
mod mark;
mod memory;
mod object;
mod own;
mod path;
mod policy;
mod preflight;
mod repository;
mod rescue;
mod restore;
mod rollback;
mod settings;
#[doc(hidden)]
pub mod shared;
mod sight;
mod snapshot;
mod status;
mod sweep;
mod trailer;
mod undo;
mod untracked;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

pub use self::{
    checkout::{Bring, Checkout},
    discover::GitWorkspace,
    error::WorkspaceError,
    filter::Filters,
    mark::CommitAuthor,
    own::OwnFiles,
    policy::{CommitHooks, CommitPolicy, Signing},
    settings::SettingChange,
    sight::Sight,
};
#[doc(hidden)]
pub use self::{
    contents::own_contents,
    mark::{author, committer, names_task, undo_message, unmarked},
    own::{OWN_FILES, OWN_FOLDER},
    repository::{
        CleanupItem, CleanupKind, CleanupMode, CleanupTerms, GitRepository, Leftovers,
        RemoteAddress, RemoteRepository, RemoteSettings, RevertChain, Sharing, TreeSettings,
    },
    trailer::{result_of, task_trailer, with_trailer},
};

use harness_core::{CommitId, Epoch, Task, TaskId, Timestamp, TreeId};

use crate::blocking::blocking;

/// The state of the tree that a claim starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// HEAD at the claim.
    pub commit: CommitId,
    /// The branch that HEAD names; `None` if HEAD is detached.
    pub branch: Option<String>,
    /// The untracked files that existed before the claim, as a git tree kept under
    /// `refs/harness/base/<task>`; `None` if there were none.
    pub untracked: Option<TreeId>,
    /// The canonical top level of the work tree.
    pub worktree: PathBuf,
    /// The epoch of the claim that started there; `None` before it is made. The mark of commits
    /// contains it.
    pub epoch: Option<Epoch>,
    /// The time of that claim.
    pub claimed_at: Option<Timestamp>,
}

/// The tree that would be committed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Exactly the tree that the commit would have.
    pub tree: TreeId,
    /// Work that no commit can hold: in a nested repository, a submodule, or an untracked file from
    /// before the claim. If nothing else was done, ignored files count too.
    pub hidden: Vec<String>,
}

/// The effect of a check on the tree that it began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The candidate now.
    pub tree: TreeId,
    /// Files of the tree that the check changed or removed; sorted.
    pub changed: Vec<String>,
    /// `true` if HEAD moved meanwhile, perhaps by another program. Nothing was removed, and the
    /// current tree must be judged again.
    pub moved: bool,
}

impl Base {
    /// Reads the base from the claim of `task`; `None` if it recorded no commit. A claim without a
    /// work tree was made in the one at `top_level`.
    pub fn of_claim(task: &Task, top_level: &Path) -> Option<Self> {
        let claim = task.claim();
        let worktree = claim.and_then(|claim| claim.worktree.as_ref());
        Some(Self {
            commit: task.started_at_commit.clone()?,
            branch: claim.and_then(|claim| claim.branch.clone()),
            untracked: claim.and_then(|claim| claim.base_untracked.clone()),
            worktree: worktree.map_or_else(|| top_level.to_owned(), PathBuf::from),
            epoch: task.epoch,
            claimed_at: task.claimed_at(),
        })
    }
}

/// The files of the work tree that are in no commit, except ours and ignored files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeStatus {
    /// Tracked files with staged or unstaged changes.
    pub changed: Vec<String>,
    /// Files that are untracked and not ignored.
    pub untracked: Vec<String>,
}

/// The state of the repository, for a person to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// The commit of HEAD; `None` before the first commit.
    pub head: Option<CommitId>,
    /// The branch; `None` if HEAD is detached.
    pub branch: Option<String>,
    /// The number of tracked files with staged or unstaged changes, including conflicts, except
    /// ours.
    pub changed: usize,
    /// The number of files with conflicts.
    pub unmerged: usize,
}

/// The evidence for recovery. Core decides on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// `true` if there are tracked changes, or untracked files that did not exist at the claim (or
    /// differ).
    pub uncommitted: bool,
    /// `true` if HEAD, its branch, tracked files and the untracked files of the claim are unchanged
    /// and there is nothing new, as if the claim had never been made.
    pub untouched: bool,
    /// Commits since the base that the attempt made, newest first. They have its mark in the
    /// committer name, or their message names the task id as a whole token.
    pub task_commits: Vec<CommitId>,
    /// The other commits since the base, newest first. They belong to others, and no rollback
    /// removes them from their branch.
    pub foreign_commits: Vec<CommitId>,
    /// The current tree of tracked and untracked files, except ours and ignored ones.
    pub tree: TreeId,
    /// The current HEAD.
    pub head: CommitId,
    /// Subjects of stashes that are younger than the claim. They are named, but never applied.
    pub stashes: Vec<String>,
}

/// One saved state of the work tree under `refs/harness/rescue/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescue {
    /// The name `refs/harness/rescue/<task>/<attempt>`, perhaps with `-2`, `-3` …
    pub reference: String,
    /// The commit that it points to.
    pub commit: CommitId,
    /// The time at which it was saved.
    pub when: Timestamp,
    /// The first line of its message.
    pub subject: String,
}

/// The result of a rollback, for the log. The default means that there was nothing to undo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolledBack {
    /// The way in which the branch was restored.
    pub undone: Undone,
    /// The ref of the saved work, if there was any.
    pub rescue: Option<String>,
    /// Untracked files from before the claim that the agent had changed and that were put back.
    pub put_back: Vec<String>,
}

/// The way in which the work of an attempt was undone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Undone {
    /// There was nothing to undo.
    #[default]
    Nothing,
    /// The branch is at the base again.
    Reset,
    /// Commits of others are on the branch and stay there. The commits of the attempt were reverted
    /// on top of them. If there were none, HEAD is unchanged.
    Kept {
        /// HEAD now.
        head: CommitId,
        /// `true` if HEAD is the commit that reverts the attempt.
        reverts: bool,
    },
}

/// The prefix of refs for commits of tasks that were completed on no branch, by task.
#[doc(hidden)]
pub const LANDED: &str = "refs/harness/landed/";

/// The operations on git that harness needs. It covers one work tree, and its calls block.
pub trait Workspace: Send + Sync {
    /// Returns the canonical top level of the work tree.
    fn top_level(&self) -> &Path;

    /// Returns HEAD, or [`WorkspaceError::NoCommits`].
    fn head(&self) -> Result<CommitId, WorkspaceError>;

    /// Returns the files that are in no commit.
    fn status(&self) -> Result<TreeStatus, WorkspaceError>;

    /// Refuses states of the repository in which a session could do harm (a merge or rebase under
    /// way, a locked index, …), each with a hint. Otherwise returns the files that are in no
    /// commit.
    fn preflight(&self) -> Result<TreeStatus, WorkspaceError>;

    /// Declares that something is about to run, or has run, that may have changed files. Earlier
    /// looks are then invalid.
    fn disturbed(&self);

    /// Returns HEAD, and a text that changes when a file does, except ours and ignored ones.
    fn mark(&self, sight: Sight) -> Result<(CommitId, String), WorkspaceError>;

    /// Records the starting point of a claim of `task`, and keeps the tree of the untracked files
    /// alive.
    fn base(&self, task: &TaskId, sight: Sight) -> Result<Base, WorkspaceError>;

    /// Returns the current tree, for a checkpoint.
    fn tree(&self) -> Result<TreeId, WorkspaceError>;

    /// Returns the changes in the work tree since `task` was claimed at `base`.
    fn evidence(
        &self,
        task: &TaskId,
        base: &Base,
        claimed_at: Timestamp,
    ) -> Result<Evidence, WorkspaceError>;

    /// Returns the files, from the top level, that differ from the claim: by commits since `base`,
    /// changed, or untracked and new. Ours and ignored files are left out; the list is sorted.
    fn touched(&self, base: &Base, sight: Sight) -> Result<Vec<String>, WorkspaceError>;

    /// Returns the files of the base that `protected` selects and whose contents differ from the
    /// claim. They are read: no flag, no ignore rule and no cache of the index counts. The list is
    /// sorted.
    fn differing(
        &self,
        base: &Base,
        protected: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, WorkspaceError>;

    /// Records git's settings for a claim that was just made: configuration, index flags, and the
    /// files in `info` and `hooks`.
    fn record_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError>;

    /// Returns the settings that differ from the record. [`SettingChange::set_back`] shows which of
    /// them [`Workspace::restore_settings`] would set back. Nothing is touched.
    fn changed_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError>;

    /// Sets back the settings that differ from the record, and returns them. If it is called before
    /// any look, every other method sees the repository as at the claim. Without a record, nothing
    /// is compared.
    fn restore_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError>;

    /// Removes the record of a claim that has ended.
    fn forget_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError>;

    /// Returns the tree of a commit.
    fn tree_of(&self, commit: &CommitId) -> Result<TreeId, WorkspaceError>;

    /// Creates a clean checkout of a commit, outside of the work tree. It is removed when it is
    /// dropped.
    fn checkout(&self, commit: &CommitId) -> Result<Checkout, WorkspaceError>;

    /// Returns the tree that [`Workspace::commit`] would commit now.
    fn candidate(&self, base: &Base, sight: Sight) -> Result<Candidate, WorkspaceError>;

    /// Looks at the work tree and compares it with `before`, the candidate before a check. Files
    /// that are new since are removed; ignored ones stay.
    fn settle(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError>;

    /// Compares `before`, a candidate, with a work tree that others use too. Nothing is removed,
    /// and new files do not count as changes.
    fn compare(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError>;

    /// Restores the files that would be committed to those of `tree`. Returns those that differed,
    /// sorted.
    fn put_back(&self, base: &Base, tree: &TreeId) -> Result<Vec<String>, WorkspaceError>;

    /// Commits `tree` as [`Workspace::commit`] does. It must be the last candidate that
    /// [`Workspace::candidate`], [`Workspace::settle`] or [`Workspace::put_back`] computed. If HEAD
    /// moved since, it returns [`WorkspaceError::HeadMoved`].
    fn commit_tree(
        &self,
        base: &Base,
        tree: &TreeId,
        message: &str,
    ) -> Result<CommitId, WorkspaceError>;

    /// Commits everything that the agent left, but neither our files nor untracked files from
    /// before the claim. If there is nothing to commit, it returns HEAD. If HEAD is on another
    /// branch that descends from the base, the claimed branch is moved to it and checked out again.
    fn commit(&self, base: &Base, message: &str) -> Result<CommitId, WorkspaceError>;

    /// Saves everything that a rollback to `base` would destroy. Returns `None` if it would destroy
    /// nothing. If the state is already saved under this attempt, it returns that ref.
    fn rescue(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<Option<Rescue>, WorkspaceError>;

    /// Saves as [`Workspace::rescue`] does, then restores the work tree to the state at the claim.
    /// Commits of others on the claimed branch stay. In that case uncommitted changes are reset to
    /// HEAD, and the commits of the attempt are reverted in one commit. If that conflicts, nothing
    /// is touched and it returns [`WorkspaceError::CannotUndo`]. If there is nothing to undo,
    /// nothing is touched.
    fn rollback(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<RolledBack, WorkspaceError>;

    /// Returns all rescues, oldest first, or those of one task.
    fn rescues(&self, task: Option<&TaskId>) -> Result<Vec<Rescue>, WorkspaceError>;

    /// Returns the files of a rescue and their differences from its base, as `git` prints them.
    fn show(&self, rescue: &Rescue) -> Result<String, WorkspaceError>;

    /// Writes the files of a rescue into the work tree, and removes those that it had removed.
    /// Refuses if one of them differs here from the rescue's base. The index is unchanged. Returns
    /// the written files.
    fn restore(&self, rescue: &Rescue) -> Result<Vec<String>, WorkspaceError>;

    /// Keeps a completed commit reachable by its own ref, for a HEAD that is on no branch. Returns
    /// the name of the ref. A later commit of the same task replaces it.
    fn keep_reachable(&self, task: &TaskId, commit: &CommitId) -> Result<String, WorkspaceError>;

    /// Removes the base that [`Workspace::base`] kept.
    fn forget(&self, task: &TaskId) -> Result<(), WorkspaceError>;
}

/// Returns the current tree without blocking the runtime's thread. On failure, it returns `None`: a
/// checkpoint without a tree is better than none.
pub async fn tree_for_checkpoint(workspace: Arc<dyn Workspace>) -> Option<TreeId> {
    match blocking(move || workspace.tree()).await {
        Ok(Ok(tree)) => Some(tree),
        Ok(Err(why)) => {
            tracing::warn!(%why, "a checkpoint without the tree: git could not read it");
            None
        }
        Err(_) => None,
    }
}
