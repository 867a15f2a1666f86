//! The workspace port: what the harness asks of version control.
//!
//! Every method can be repeated: a crash may come after any step, and recovery calls the same
//! methods again. Nothing here decides whether a task passed or failed.

mod candidate;
mod checkout;
mod commit;
mod contents;
mod discover;
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
mod rescue;
mod restore;
mod rollback;
mod settings;
mod sight;
mod snapshot;
mod status;
mod sweep;
mod undo;
mod untracked;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

pub use self::{
    checkout::{Bring, Checkout},
    discover::GitWorkspace,
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
};

use harness_core::{CommitId, Epoch, Task, TaskId, Timestamp, TreeId};

/// What a claim records about the tree that it starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// HEAD at the claim.
    pub commit: CommitId,
    /// The branch that HEAD names; `None` when detached.
    pub branch: Option<String>,
    /// The untracked files that were there before the claim, as a git tree kept under
    /// `refs/harness/base/<task>`; `None` if there were none.
    pub untracked: Option<TreeId>,
    /// Canonical top level of the work tree.
    pub worktree: PathBuf,
    /// The claim that started there; `None` before it is made. Commits carry it in their mark.
    pub epoch: Option<Epoch>,
    /// When that claim was made.
    pub claimed_at: Option<Timestamp>,
}

/// What would be committed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Exactly the tree that the commit would have.
    pub tree: TreeId,
    /// Work that no commit can hold: in a nested repository, a submodule, an untracked file from
    /// before the claim; and, where nothing else was done, in an ignored file.
    pub hidden: Vec<String>,
}

/// What a check made of the tree that it began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The candidate now.
    pub tree: TreeId,
    /// Files of the tree that the check changed or removed; sorted.
    pub changed: Vec<String>,
    /// HEAD moved meanwhile, perhaps by somebody else: nothing was removed, and what is there has to
    /// be judged again.
    pub moved: bool,
}

impl Base {
    /// What the claim of `task` recorded; `None` where it recorded no commit. A claim that names no
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

/// What is in the work tree that no commit holds. Ours and ignored files aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeStatus {
    /// Tracked files with staged or unstaged changes.
    pub changed: Vec<String>,
    /// Untracked, not ignored.
    pub untracked: Vec<String>,
}

/// How the repository stands, for a person to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// `None` before the first commit.
    pub head: Option<CommitId>,
    /// `None` when detached.
    pub branch: Option<String>,
    /// Tracked files with staged or unstaged changes, those with conflicts too. Ours aside.
    pub changed: usize,
    /// Files with conflicts.
    pub unmerged: usize,
}

/// What recovery looks at. The decision is the core's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Tracked changes, or untracked files that were not there at the claim (or differ).
    pub uncommitted: bool,
    /// HEAD, its branch, tracked files and the untracked files of the claim are what they were, and
    /// there is nothing new: as if the claim had never been made.
    pub untouched: bool,
    /// Commits since the base that the attempt made, newest first: by their committer's mark, or
    /// because their message names the task id as a whole token.
    pub task_commits: Vec<CommitId>,
    /// The other commits since the base, newest first. They are somebody else's: no rollback takes
    /// them off their branch.
    pub foreign_commits: Vec<CommitId>,
    /// The tree of tracked and untracked files as they stand, ours and ignored ones aside.
    pub tree: TreeId,
    /// HEAD as it stands.
    pub head: CommitId,
    /// Subjects of stashes younger than the claim: named, never applied.
    pub stashes: Vec<String>,
}

/// One saved state of the work tree under `refs/harness/rescue/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescue {
    /// `refs/harness/rescue/<task>/<attempt>`, perhaps with `-2`, `-3` …
    pub reference: String,
    /// What that points to.
    pub commit: CommitId,
    /// When it was saved.
    pub when: Timestamp,
    /// First line of its message.
    pub subject: String,
}

/// What a rollback did, for the log. By default nothing: there was nothing to undo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolledBack {
    /// How the branch was brought back.
    pub undone: Undone,
    /// Where the vanished work is, if there was any.
    pub rescue: Option<String>,
    /// Untracked files from before the claim that the agent had changed and that were put back.
    pub put_back: Vec<String>,
}

/// How the work of an attempt was taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Undone {
    /// There was nothing to take back.
    #[default]
    Nothing,
    /// The branch is at the base again.
    Reset,
    /// Commits of others are on the branch and stay there. The commits of the attempt were reverted
    /// on top of them; where it had none, HEAD is what others made it.
    Kept {
        /// HEAD now.
        head: CommitId,
        /// It is the commit that reverts the attempt.
        reverts: bool,
    },
}

/// Below this are commits of tasks that were completed on no branch, by task.
#[doc(hidden)]
pub const LANDED: &str = "refs/harness/landed/";

/// Git as the harness needs it. One work tree; blocking calls.
pub trait Workspace: Send + Sync {
    /// Of the work tree, canonical.
    fn top_level(&self) -> &Path;

    /// HEAD, or [`WorkspaceError::NoCommits`].
    fn head(&self) -> Result<CommitId, WorkspaceError>;

    /// What no commit holds.
    fn status(&self) -> Result<TreeStatus, WorkspaceError>;

    /// Refuses states of the repository in which a session could do harm (a merge or rebase under
    /// way, a locked index, …), each with its way out. Otherwise: what no commit holds.
    fn preflight(&self) -> Result<TreeStatus, WorkspaceError>;

    /// Says that something is about to run, or has run, that may have changed files: what was seen
    /// before does not count any more.
    fn disturbed(&self);

    /// HEAD, and a text that changes when a file does; ours and ignored ones aside.
    fn mark(&self, sight: Sight) -> Result<(CommitId, String), WorkspaceError>;

    /// Records what the claim of `task` starts from, and keeps the untracked files' tree alive.
    fn base(&self, task: &TaskId, sight: Sight) -> Result<Base, WorkspaceError>;

    /// The tree as it stands (for a checkpoint).
    fn tree(&self) -> Result<TreeId, WorkspaceError>;

    /// What happened in the work tree since `task` was claimed at `base`.
    fn evidence(
        &self,
        task: &TaskId,
        base: &Base,
        claimed_at: Timestamp,
    ) -> Result<Evidence, WorkspaceError>;

    /// The files, from the top level, that are not what they were at the claim: by commits since
    /// `base`, changed, or untracked and not there before. Ours and ignored ones aside; sorted.
    fn touched(&self, base: &Base, sight: Sight) -> Result<Vec<String>, WorkspaceError>;

    /// The files of the base that `protected` picks and whose contents are not what they were at the
    /// claim. They are read: no flag, no ignore rule and no cache of the index counts. Sorted.
    fn differing(
        &self,
        base: &Base,
        protected: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, WorkspaceError>;

    /// Records git's settings for a claim that was just made: configuration, index flags, and the
    /// files in `info` and `hooks`.
    fn record_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError>;

    /// The settings that are not what was recorded; [`SettingChange::set_back`] tells which of them
    /// [`Workspace::restore_settings`] would set back. Nothing is touched.
    fn changed_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError>;

    /// Sets back the settings that are not what was recorded, and tells which. Called before
    /// anything is looked at, it makes every other method see what it saw at the claim. Without a
    /// record there is nothing to compare.
    fn restore_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError>;

    /// Drops the record of a claim that has ended.
    fn forget_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError>;

    /// The tree of a commit.
    fn tree_of(&self, commit: &CommitId) -> Result<TreeId, WorkspaceError>;

    /// A clean checkout of a commit, outside of the work tree; gone when it is dropped.
    fn checkout(&self, commit: &CommitId) -> Result<Checkout, WorkspaceError>;

    /// The tree that [`Workspace::commit`] would commit now.
    fn candidate(&self, base: &Base, sight: Sight) -> Result<Candidate, WorkspaceError>;

    /// What became of `before`, a candidate, while a check ran: the work tree is looked at. Files that are new since are
    /// removed; ignored ones stay.
    fn settle(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError>;

    /// What became of `before`, a candidate, in a work tree that others use too: nothing is removed,
    /// and files that are new since do not count as changes.
    fn compare(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError>;

    /// Makes the files that would be committed those of `tree`. Returns the ones that differed,
    /// sorted.
    fn put_back(&self, base: &Base, tree: &TreeId) -> Result<Vec<String>, WorkspaceError>;

    /// Commits `tree`, the candidate that [`Workspace::candidate`], [`Workspace::settle`] or
    /// [`Workspace::put_back`] came to last, as [`Workspace::commit`] does. If HEAD moved since, the
    /// answer is [`WorkspaceError::HeadMoved`].
    fn commit_tree(
        &self,
        base: &Base,
        tree: &TreeId,
        message: &str,
    ) -> Result<CommitId, WorkspaceError>;

    /// Commits everything the agent left, but neither our files nor untracked files from before
    /// the claim. Nothing to commit: no commit, HEAD is returned. HEAD on another branch that
    /// descends from the base: the claimed branch is moved to it and checked out again.
    fn commit(&self, base: &Base, message: &str) -> Result<CommitId, WorkspaceError>;

    /// Saves everything that a rollback to `base` would make vanish. `None`: nothing would.
    /// Called again for a state that is already saved under this attempt, it returns that ref.
    fn rescue(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<Option<Rescue>, WorkspaceError>;

    /// Saves (as [`Workspace::rescue`]), then makes the work tree what it was at the claim. Commits
    /// of others on the claimed branch stay: then uncommitted changes go back to HEAD, and the
    /// commits of the attempt are reverted in one commit. If that conflicts, nothing is touched and
    /// the answer is [`WorkspaceError::CannotUndo`]. Nothing to undo: nothing is touched.
    fn rollback(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<RolledBack, WorkspaceError>;

    /// All rescues, oldest first; of one task if named.
    fn rescues(&self, task: Option<&TaskId>) -> Result<Vec<Rescue>, WorkspaceError>;

    /// The files that a rescue holds and how they differ from its base, as `git` prints it.
    fn show(&self, rescue: &Rescue) -> Result<String, WorkspaceError>;

    /// Writes the files of a rescue into the work tree, and removes those that it had removed;
    /// refuses if one of them is here in another form than at the rescue's base. The index stays.
    /// Returns the files written.
    fn restore(&self, rescue: &Rescue) -> Result<Vec<String>, WorkspaceError>;

    /// Keeps a completed commit reachable by a ref of its own, for a HEAD that is on no branch.
    /// Returns the name of the ref. A later commit of the same task replaces it.
    fn keep_reachable(&self, task: &TaskId, commit: &CommitId) -> Result<String, WorkspaceError>;

    /// Forgets the base that [`Workspace::base`] kept.
    fn forget(&self, task: &TaskId) -> Result<(), WorkspaceError>;
}

/// Why a workspace did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// There is no work tree around the directory.
    #[error("{path} is not inside a git work tree")]
    NotARepository {
        /// Where one was looked for.
        path: PathBuf,
    },
    /// HEAD names no commit: there is nothing to go back to.
    #[error("the repository has no commit yet")]
    NoCommits,
    /// The command could not be started.
    #[error("git is not installed or not on PATH")]
    NoGit,
    /// Going on could do harm.
    #[error("{what}")]
    Unsafe {
        /// What is wrong.
        what: String,
        /// The way out of it.
        hint: String,
    },
    /// Another git command is at work, or was killed at work.
    #[error("the index is locked by {}", lock.display())]
    Locked {
        /// The file that says so.
        lock: PathBuf,
    },
    /// Somebody removed it, or it is another repository's.
    #[error("{commit} is not a commit of this repository")]
    NoSuchCommit {
        /// What was asked for.
        commit: CommitId,
    },
    /// A hook of the repository does not let the commit through.
    #[error("the {hook} hook refused the commit: {detail}")]
    HookRefused {
        /// The name of the hook.
        hook: String,
        /// The end of what it printed.
        detail: String,
    },
    /// The commit could not be signed.
    #[error("the commit could not be signed: {detail}")]
    NotSigned {
        /// The end of what git printed.
        detail: String,
    },
    /// The task was claimed in another work tree.
    #[error("the claim was made in {claimed}, not in {here}")]
    WrongWorktree {
        /// Where the claim was made.
        claimed: PathBuf,
        /// Where we are.
        here: PathBuf,
    },
    /// What HEAD holds is not the work of this claim.
    #[error("HEAD is on {found}, which does not descend from the base {base}")]
    NotDescendant {
        /// The branch or commit.
        found: String,
        /// What the claim started from.
        base: CommitId,
    },
    /// Somebody committed since the tree was computed that should be committed.
    #[error("HEAD is not at {from} any more")]
    HeadMoved {
        /// Where it was.
        from: CommitId,
    },
    /// Commits of the attempt lie below commits of others and do not revert cleanly.
    #[error("{what}")]
    CannotUndo {
        /// What is in the way.
        what: String,
        /// How a person settles it: by undoing the commits, or by keeping them.
        ways: [String; 2],
    },
    /// A restore would destroy what is there.
    #[error("would overwrite changed files: {}", files.join(", "))]
    WouldOverwrite {
        /// From the top level.
        files: Vec<String>,
    },
    /// A git command failed that should not.
    #[error("git {command} failed: {detail}")]
    Git {
        /// Its subcommand.
        command: String,
        /// What it said.
        detail: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The tree as it stands, off the runtime's thread. A checkpoint without one is worth more than none.
pub async fn tree_for_checkpoint(workspace: Arc<dyn Workspace>) -> Option<TreeId> {
    match tokio::task::spawn_blocking(move || workspace.tree()).await {
        Ok(Ok(tree)) => Some(tree),
        Ok(Err(why)) => {
            tracing::warn!(%why, "a checkpoint without the tree: git could not read it");
            None
        }
        Err(_) => None,
    }
}
