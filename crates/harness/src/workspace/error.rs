//! The errors of a workspace.

use std::path::PathBuf;

use harness_core::CommitId;

/// The reason why an operation of a workspace failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// There is no work tree around the directory.
    #[error("{path} is not inside a git work tree")]
    NotARepository {
        /// The directory that was searched.
        path: PathBuf,
    },
    /// HEAD names no commit, so there is nothing to return to.
    #[error("the repository has no commit yet")]
    NoCommits,
    /// The command could not be started.
    #[error("git is not installed or not on PATH")]
    NoGit,
    /// Continuing could do harm.
    #[error("{what}")]
    Unsafe {
        /// A description of the problem.
        what: String,
        /// A hint for solving it.
        hint: String,
    },
    /// Another git command is running, or was killed.
    #[error("the index is locked by {}", lock.display())]
    Locked {
        /// The lock file.
        lock: PathBuf,
    },
    /// The commit was removed, or belongs to another repository.
    #[error("{commit} is not a commit of this repository")]
    NoSuchCommit {
        /// The requested commit.
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
        /// The work tree of the claim.
        claimed: PathBuf,
        /// The current work tree.
        here: PathBuf,
    },
    /// HEAD does not contain the work of this claim.
    #[error("HEAD is on {found}, which does not descend from the base {base}")]
    NotDescendant {
        /// The branch or commit.
        found: String,
        /// The commit that the claim started from.
        base: CommitId,
    },
    /// Another program committed after the tree to be committed was computed.
    #[error("HEAD is not at {from} any more")]
    HeadMoved {
        /// The earlier HEAD.
        from: CommitId,
    },
    /// Commits of the attempt lie below commits of others and do not revert cleanly.
    #[error("{what}")]
    CannotUndo {
        /// The obstacle.
        what: String,
        /// The two ways in which a person can resolve it: undo the commits, or keep them.
        ways: [String; 2],
    },
    /// Later commits changed the same lines as a rescue.
    #[error("later commits changed the same lines: {}", files.join(", "))]
    Conflicts {
        /// Relative to the top level.
        files: Vec<String>,
    },
    /// A restore would destroy what is there.
    #[error("would overwrite changed files: {}", files.join(", "))]
    WouldOverwrite {
        /// The files, relative to the top level.
        files: Vec<String>,
    },
    /// The server of a remote cannot be reached, or does not answer as one.
    #[error("the remote {remote} cannot be reached: {detail}")]
    Unreachable {
        /// The name of the remote.
        remote: String,
        /// The end of what git printed.
        detail: String,
    },
    /// A git command failed unexpectedly.
    #[error("git {command} failed: {detail}")]
    Git {
        /// Its subcommand.
        command: String,
        /// Its error message.
        detail: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
