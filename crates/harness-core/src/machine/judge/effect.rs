//! What a judge asks for, and what comes of it.

use super::{Around, Before, JudgedTree, Setting, Standing};
use crate::{CommitId, Receipt, TreeId, check::Verdict, receipt::CheckRecord};

/// What a judge asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// HEAD of the work tree is looked up. Asked for the work of clients, who commit themselves.
    Head,
    /// The files that differ from the claim are listed.
    Touched,
    /// The task's check is run.
    Check {
        /// In a clean checkout of this commit; `None`: in the work tree.
        commit: Option<CommitId>,
    },
    /// The init script is run once more, since the environment lacks the check.
    Prepare,
    /// The work is committed.
    Keep {
        /// Exactly this tree; `None`: everything that the agent left.
        tree: Option<TreeId>,
    },
    /// The files that would be committed are made those of this tree again.
    PutBack {
        /// What the check began with.
        tree: TreeId,
    },
    /// Settings of git that were found changed are made what they were at the claim. The flags that
    /// report them are durable.
    SetBack,
    /// After a check that passed: what became of the tree that it began with.
    Settle {
        /// The tree, as the check found it.
        before: Before,
    },
    /// The receipt is made durable. Its tree and what a run knows about its agent are filled in.
    Record(Box<Receipt>),
    /// The task is read again, for the epoch that a completion by force was given.
    Look,
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// Of `Head`; `None` without a repository or a commit.
    Head(Option<CommitId>),
    /// Of `Touched`.
    Touched {
        /// From the top of the work tree.
        files: Vec<String>,
        /// Settings of git that differ from the claim and stay as they are.
        settings: Vec<Setting>,
    },
    /// Of `Touched`, `Check`, `Keep` and `Settle`: settings of git differ from the claim and have to
    /// be set back. Nothing was looked at and nothing was done.
    Changed(Vec<Setting>),
    /// The settings are what they were at the claim.
    SetBack,
    /// Of `Check`.
    Checked {
        /// What its end means.
        verdict: Verdict,
        /// For the receipt.
        record: Box<CheckRecord>,
        /// The end of its output, for people.
        output: String,
        /// What was seen before it.
        around: Box<Around>,
    },
    /// Of `Settle`.
    Settled {
        /// Before and after the check.
        tree: Box<JudgedTree>,
        /// Settings of git that differ from the claim and stay as they are.
        settings: Vec<Setting>,
    },
    /// Whether that helped is for the next check to say.
    Prepared,
    /// The work is committed.
    Kept {
        /// Where HEAD is now.
        commit: CommitId,
        /// Work that no commit can hold, if that was looked for.
        hidden: Vec<String>,
        /// Settings of git that differ from the claim and stay as they are.
        settings: Vec<Setting>,
    },
    /// Somebody committed since the tree was computed: it was not committed.
    Moved,
    /// The files are what the check began with; these were not.
    PutBack(Vec<String>),
    /// The commits that are there cannot be the work of this attempt.
    NotKept {
        /// For the error log of the task.
        why: String,
    },
    /// Somebody else's git was at work for too long.
    Blocked {
        /// In words.
        why: String,
    },
    /// The receipt is durable.
    Recorded,
    /// Of `Look`.
    Looked(Box<Standing>),
}
