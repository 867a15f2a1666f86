//! The beginning of an attempt, its effects with their results, and its end.

use crate::{
    CommitId,
    check::Verdict,
    machine::{
        judge as judging,
        land::{LandEffect, LandReport},
        recovery::Action,
    },
    stop::Stop,
};

/// The point at which an attempt begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The task was just claimed.
    Fresh,
    /// The task was found `in_progress`. An intent of the task takes precedence over this action.
    Recovered(Action),
}

/// An effect that an attempt asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Lets the agent work, after this checkpoint if there is one.
    Work {
        /// The last finished step; `None` to start from the beginning.
        after_step: Option<u32>,
    },
    /// Runs the task's check before any work.
    Baseline,
    /// An effect that the judge asks for.
    Judge(judging::Effect),
    /// An effect that the landing asks for.
    Land(Box<LandEffect>),
    /// Saves everything that would be lost, then restores the tree as it was at the claim.
    Undo,
    /// Runs the task's own cleanup in the restored tree.
    Cleanup {
        /// A line for the shell.
        command: String,
    },
    /// Checks whether anything changed since the claim.
    Look,
    /// Saves the work and leaves the tree unchanged.
    Rescue,
}

/// The result of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// The agent has finished, for whatever reason and after any number of contexts.
    Worked(Stop),
    /// The verdict of the check before any work.
    Based(Verdict),
    /// The result of an effect that the judge asked for.
    Judged(judging::Ended),
    /// The result of an effect that the landing asked for.
    Landing(Box<LandReport>),
    /// The work of the attempt was undone.
    Undone {
        /// The commit that the branch was reset to, for the log; `None` if it was not reset.
        base: Option<CommitId>,
        /// Files from before the claim that the attempt had changed.
        put_back: Vec<String>,
        /// A note on how it was undone beneath commits of others, if there are any.
        remark: Option<String>,
    },
    /// Commits of the attempt lie below commits of others and do not revert cleanly. Nothing was
    /// touched. The intent stays, and a person must resolve it.
    NotUndone {
        /// The obstacle, and how to resolve it.
        why: String,
    },
    /// The commit that the claim started from is gone, so no further attempt can help.
    NoBase,
    /// The cleanup ended. A failure is described, but has no consequence.
    CleanedUp(Option<String>),
    /// The result of `Look`.
    Looked {
        /// `true` if something changed, or if that is not known. Recovery decides then.
        changed: bool,
    },
    /// Everything that could be saved was saved where a person finds it.
    Rescued,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The check passed, and the completion is recorded.
    Completed {
        /// The commit that holds all of the work.
        commit: Option<CommitId>,
    },
    /// The work was undone as far as possible, and the failure is recorded.
    Failed {
        /// `true` if another attempt may follow.
        retryable: bool,
    },
    /// The session must stop. The task is pending again, or can be recovered.
    Left(Stop),
    /// Another worker holds the task. Nothing was recorded.
    Lost,
    /// The worker could not renew its claim and stopped its agent. The claim is still its own, so
    /// that it can take the task up again.
    Paused,
}
