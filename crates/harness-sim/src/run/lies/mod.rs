//! An agent that lies: it edits, removes and corrupts every file of ours, uses every verb, changes
//! git's settings, commits under any name, leaves processes behind and kills its supervisor. A person
//! commits on the branch meanwhile.
//!
//! What must hold all the same is in `checkers`; what was told, and what became of it, is kept here.

pub(super) mod checkers;
mod files;
mod ledger;
mod lie;
mod meanwhile;
mod reports;
mod rows;
mod tree;
mod verbs;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{CommitId, Epoch, Flag, Receipt, RunId, TaskId, agent::Usage, run::RunLimits};

pub(super) use lie::{Deed, Teller, choose, tell};
pub(super) use verbs::{Asked, answer};
pub use world::LiarWorld;
pub(super) use world::store;

/// An attempt, by its task and its claim.
pub(super) type OfAttempt = (TaskId, Epoch);

/// What the liars of one world did, as somebody knows it who saw them do it.
#[derive(Default)]
pub(super) struct Lies {
    /// This world has liars.
    pub(super) on: bool,
    /// They are after money.
    pub(super) spender: bool,
    /// They do nothing, say so, and kill their supervisor.
    pub(super) killer: bool,
    /// What stands in the place of the ledger, until the harness has answered it.
    pub(super) forged: Option<Forged>,
    /// The second copies are not what the harness left there either.
    pub(super) copies_forged: bool,
    /// The journal was lost once, and with it what it had of receipts.
    pub(super) receipts_lost: bool,
    /// Earlier versions of the ledger, sealed as they are.
    pub(super) versions: Vec<Vec<u8>>,
    /// What each task was given at first. Nobody who may change that does.
    pub(super) given: BTreeMap<TaskId, Given>,
    /// Attempts that ended.
    pub(super) ends: BTreeMap<TaskId, u32>,
    /// Completions, as they were seen.
    pub(super) completed: BTreeSet<OfAttempt>,
    /// How often a context was started.
    pub(super) starts: BTreeMap<(RunId, u32), u32>,
    /// Commits of the person.
    pub(super) foreign: Vec<CommitId>,
    /// So many processes of agents are still there, and will write once more each.
    pub(super) behind: u32,
    /// What attempts must be flagged with when they end.
    pub(super) flags: BTreeMap<OfAttempt, BTreeSet<Flag>>,
    /// Verbs that were refused, as the host remembers them.
    pub(super) refused: BTreeSet<(OfAttempt, &'static str)>,
    /// As they were recorded.
    pub(super) receipts: BTreeMap<OfAttempt, Receipt>,
    /// What the run may use, as this process took it up.
    pub(super) terms: RunLimits,
    /// What was spent before this process, as far as that can be known.
    pub(super) spent_before: Usage,
    /// What agents of this process spent.
    pub(super) spent: Usage,
    /// The rows of runs are not what the harness wrote.
    pub(super) rows_forged: bool,
    /// An alert was raised in this process.
    pub(super) alarmed: bool,
}

/// The ledger as a liar left it.
#[derive(Debug, Clone)]
pub(super) struct Forged {
    /// Empty: it is gone.
    pub(super) bytes: Vec<u8>,
    pub(super) kind: Kind,
}

/// How serious a lie about the ledger is, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// What anybody may do: it is taken.
    Harmless,
    /// The file is gone, or no ledger any more.
    Broken,
    /// It says what is not so.
    Edit,
}

/// What decides about a task, as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) check: Option<String>,
    pub(super) max_attempts: u32,
}
