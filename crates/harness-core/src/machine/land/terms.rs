//! The start conditions of a landing, its effects with their results, and its end.

use crate::{
    Category, CommitId, Holder, Refusal, Stop, Task, TaskId, TreeId,
    command::{Attempts, Evict},
    ledger::LandingEntry,
    machine::judge::{self, Rules},
};

/// The start conditions of a landing.
#[derive(Debug, Clone)]
pub struct LandTerms {
    /// The task as it was claimed.
    pub task: Task,
    /// The holder of the claim.
    pub holder: Holder,
    /// The duration of a claim without a renewal.
    pub lease_seconds: u64,
    /// The rules of judging.
    pub rules: Rules,
    /// The commit that the work started from.
    pub base: CommitId,
    /// The number of entries that prepare at the same time.
    pub preparing: usize,
}

/// The branch on which results land, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingBranch {
    /// Its name.
    pub name: String,
    /// Its commit.
    pub tip: CommitId,
}

/// An effect that a landing asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum LandEffect {
    /// Reads the line and the target. `files` are those that the result changes.
    Look {
        /// The files, for reservations of other tasks.
        files: Vec<String>,
    },
    /// Waits until the line or the target may have changed, for a second at most.
    Await,
    /// Puts the original work of the attempt on top of a commit.
    Rebase {
        /// The last commit of the original work.
        work: CommitId,
        /// The commit to put it on.
        onto: CommitId,
        /// The result of the last rebase, if there was one.
        placed: Option<CommitId>,
    },
    /// An effect that the judge asks for. The work is on top of `onto`.
    Judge {
        /// The commit below the judged work.
        onto: CommitId,
        /// The effect.
        effect: judge::Effect,
    },
    /// Sets the token that allows the landing of `to`.
    SetToken {
        /// The commit that is about to land.
        to: CommitId,
    },
    /// Moves the target.
    Swap {
        /// The branch.
        target: String,
        /// Its commit before.
        from: CommitId,
        /// Its commit after.
        to: CommitId,
    },
    /// Removes the token after a swap that did not happen.
    VoidToken {
        /// The commit that was about to land.
        to: CommitId,
    },
    /// Creates the branch on which results land in the place of `target`.
    Branch {
        /// The branch that cannot be moved.
        target: String,
    },
}

/// The result of an effect of a landing.
#[derive(Debug, Clone, PartialEq)]
pub enum LandReport {
    /// The result of `Look`.
    Looked {
        /// The branch on which results land now.
        branch: LandingBranch,
        /// The line.
        line: Vec<LandingEntry>,
        /// A task whose reservation keeps this result from landing.
        held_back: Option<TaskId>,
        /// The entry of a worker that is gone, which nobody has to wait for.
        gone: Option<Evict>,
    },
    /// The target branch does not exist any more.
    NoTarget {
        /// Its name.
        branch: String,
    },
    /// The result of `Await`.
    Awaited,
    /// The result of `Rebase`.
    Rebased(Rebased),
    /// The result of an effect that the judge asked for.
    Judged(judge::Ended),
    /// The token is set.
    TokenSet,
    /// The result of `Swap`.
    Swapped(Swapped),
    /// The token is removed.
    TokenVoided,
    /// There was no token any more.
    TokenMissing,
    /// The server that has the target cannot be reached. Whether the effect happened there is unknown.
    Unreachable {
        /// A description.
        why: String,
    },
    /// The branch exists.
    Branched {
        /// Its name.
        branch: String,
    },
}

/// The result of putting the work on top of another commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebased {
    /// It is there.
    Done {
        /// Its last commit, which is the one below if nothing was changed.
        commit: CommitId,
        /// Its tree.
        tree: TreeId,
        /// The files that it changes, sorted.
        files: Vec<String>,
    },
    /// The same lines were changed.
    Conflict {
        /// The files, sorted.
        files: Vec<String>,
    },
}

/// The result of moving the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swapped {
    /// It has moved.
    Done,
    /// It was not at the expected commit.
    TargetMoved,
    /// The token is gone: another worker has the task.
    Fenced,
    /// It is checked out in a tree that must not be touched, or on a server that refuses the move.
    TreeInUse {
        /// The reason, for people.
        why: String,
    },
}

/// The end of a landing.
#[derive(Debug, Clone, PartialEq)]
pub enum LandEnd {
    /// The result is on the target, and the completion is recorded.
    Landed {
        /// The commit that landed.
        commit: Option<CommitId>,
    },
    /// The result does not fit on top of what landed. The attempt fails.
    Refused {
        /// The category of the failure.
        category: Category,
        /// The message for the error log.
        message: String,
        /// The number of attempts that it uses up.
        attempts: Attempts,
    },
    /// The session must stop. The work can be recovered.
    Left(Stop),
    /// Another worker holds the task.
    ClaimLost(Refusal),
}
