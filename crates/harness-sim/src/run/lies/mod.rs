//! An agent that lies: it edits, removes and corrupts every file of ours, sends every request,
//! changes git's settings, commits under any name, leaves processes behind and kills its
//! supervisor. Meanwhile a person commits on the branch.
//!
//! `checkers` contains the invariants. This module records the lies and their consequences.

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

/// An attempt, identified by its task and its claim.
pub(super) type OfAttempt = (TaskId, Epoch);

/// The actions of the liars of one world, recorded while they happen.
#[derive(Default)]
pub(super) struct Lies {
    /// `true` if this world has liars.
    pub(super) on: bool,
    /// `true` if they try to spend more than the budget.
    pub(super) spender: bool,
    /// `true` if they do nothing, report that, and kill their supervisor.
    pub(super) killer: bool,
    /// The forged ledger, until harness has responded to it.
    pub(super) forged: Option<Forged>,
    /// `true` if the second copies were forged too.
    pub(super) copies_forged: bool,
    /// `true` if the journal was lost once, and with it its receipts.
    pub(super) receipts_lost: bool,
    /// Earlier versions of the ledger with their seals.
    pub(super) versions: Vec<Vec<u8>>,
    /// The first check and limit of each task. Nobody with permission changes them.
    pub(super) given: BTreeMap<TaskId, Given>,
    /// The number of attempts that ended.
    pub(super) ends: BTreeMap<TaskId, u32>,
    /// The completions that were seen.
    pub(super) completed: BTreeSet<OfAttempt>,
    /// The number of starts of each context.
    pub(super) starts: BTreeMap<(RunId, u32), u32>,
    /// Commits of the person.
    pub(super) foreign: Vec<CommitId>,
    /// The number of leftover processes of agents, each of which will write once more.
    pub(super) behind: u32,
    /// The flags that attempts must have when they end.
    pub(super) flags: BTreeMap<OfAttempt, BTreeSet<Flag>>,
    /// Requests that were refused, as the host remembers them.
    pub(super) refused: BTreeSet<(OfAttempt, &'static str)>,
    /// The receipts as they were recorded.
    pub(super) receipts: BTreeMap<OfAttempt, Receipt>,
    /// The limits of the run when this process took it up.
    pub(super) terms: RunLimits,
    /// The usage before this process, as far as it is known.
    pub(super) spent_before: Usage,
    /// The usage of agents of this process.
    pub(super) spent: Usage,
    /// `true` if the rows of runs were forged.
    pub(super) rows_forged: bool,
    /// `true` if an alert was raised in this process.
    pub(super) alarmed: bool,
}

/// The ledger after a lie.
#[derive(Debug, Clone)]
pub(super) struct Forged {
    /// The content; empty if the file was removed.
    pub(super) bytes: Vec<u8>,
    pub(super) kind: Kind,
}

/// The severity of a lie in the ledger, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A change that every program may make. It is accepted.
    Harmless,
    /// The file is gone, or is no longer a ledger.
    Broken,
    /// The content is false.
    Edit,
}

/// The original settings that decide about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) check: Option<String>,
    pub(super) max_attempts: u32,
}
