//! The effects of a judge and their results.

use super::{Around, Before, JudgedTree, Setting, Standing};
use crate::{CommitId, Receipt, TreeId, check::Verdict, receipt::CheckRecord};

/// An effect that a judge asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Reads HEAD of the work tree. It is asked for the work of clients, which commit themselves.
    Head,
    /// Lists the files that differ from the claim.
    Touched,
    /// Runs the task's check.
    Check {
        /// The commit for a clean checkout; `None` for the work tree.
        commit: Option<CommitId>,
    },
    /// Runs the init script once more, because the environment lacks the check.
    Prepare,
    /// Commits the work.
    Keep {
        /// The exact tree to commit; `None` for everything that the agent left.
        tree: Option<TreeId>,
    },
    /// Restores the files that would be committed to those of this tree.
    PutBack {
        /// The tree that the check began with.
        tree: TreeId,
    },
    /// Restores changed settings of git to their state at the claim. The flags that report them are
    /// durable by then.
    SetBack,
    /// Compares the tree before a passed check with the tree after it.
    Settle {
        /// The tree before the check.
        before: Before,
    },
    /// Makes the receipt durable. The performer fills in its tree and the data about the agent.
    Record(Box<Receipt>),
    /// Reads the task again, for the epoch of a completion by force.
    Look,
}

/// The result of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// The result of `Head`; `None` without a repository or a commit.
    Head(Option<CommitId>),
    /// The result of `Touched`.
    Touched {
        /// The files, relative to the top of the work tree.
        files: Vec<String>,
        /// Settings of git that differ from the claim and stay unchanged.
        settings: Vec<Setting>,
    },
    /// A result of `Touched`, `Check`, `Keep` and `Settle`: settings of git differ from the claim
    /// and must be set back. The effect itself was not carried out.
    Changed(Vec<Setting>),
    /// The settings are as they were at the claim.
    SetBack,
    /// The result of `Check`.
    Checked {
        /// The verdict of the check.
        verdict: Verdict,
        /// The record for the receipt.
        record: Box<CheckRecord>,
        /// The end of its output, for people.
        output: String,
        /// The state of the work tree before the check.
        around: Box<Around>,
    },
    /// The result of `Settle`.
    Settled {
        /// The tree before and after the check.
        tree: Box<JudgedTree>,
        /// Settings of git that differ from the claim and stay unchanged.
        settings: Vec<Setting>,
    },
    /// The init script ended. The next check shows whether it helped.
    Prepared,
    /// The work is committed.
    Kept {
        /// The commit of HEAD now.
        commit: CommitId,
        /// Work that no commit can hold, if it was searched for.
        hidden: Vec<String>,
        /// Settings of git that differ from the claim and stay unchanged.
        settings: Vec<Setting>,
    },
    /// Another program committed since the tree was computed, so the tree was not committed.
    Moved,
    /// The files are as they were before the check. The list names those that were not.
    PutBack(Vec<String>),
    /// The existing commits cannot be the work of this attempt.
    NotKept {
        /// The reason, for the error log of the task.
        why: String,
    },
    /// Another git process blocked the repository for too long.
    Blocked {
        /// A description.
        why: String,
    },
    /// The receipt is durable.
    Recorded,
    /// The result of `Look`.
    Looked(Box<Standing>),
}
