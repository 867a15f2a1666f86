//! The closed set of commands. Every change of a task or a session is requested with one of these.
//! [`decide`] returns the change or a refusal. There is one file per decision.

mod add;
mod adopt;
mod again;
mod change;
mod checkpoint;
mod claim;
mod code;
mod complete;
mod configure;
mod edit;
mod fail;
mod gate;
mod import;
mod intend;
mod landing;
mod note;
mod parallel;
mod pause;
mod phase;
mod raise;
mod refusal;
mod release;
mod remove;
mod renew;
mod reopen;
mod retry;
mod run;
mod session;
mod settle;
mod texts;
mod upkeep;

pub use add::Add;
pub use adopt::Adopt;
#[doc(hidden)]
pub use again::answer_again;
pub use change::{Change, Reply};
pub use checkpoint::AddCheckpoint;
pub use claim::{Claim, ClaimChoice, Claimed, ParallelTerms, Place};
pub use code::Code;
pub use complete::{Authority, Complete, Proof, Unchecked};
pub use configure::{ConfigureSession, SessionKey};
pub use edit::Edit;
pub use fail::{Attempts, Fail};
pub use gate::{Hold, HoldGate, PassGate};
pub use import::{Import, ImportMode, ImportedTasks};
pub use intend::{Intend, VoidIntent};
pub use landing::{Evict, Landing, LandingStep};
pub use note::Note;
pub use parallel::{Divert, Gone, SetMode, SetTarget, TakeOver, attempt_branch};
pub use pause::{Pause, Resume};
pub use phase::{EditPhase, RemovePhase};
pub use raise::Raise;
pub use refusal::{Refusal, RefusalKind};
pub use release::Release;
pub use remove::Remove;
pub use renew::Renew;
pub use reopen::{Reopen, completed_dependents};
pub use retry::Retry;
pub use run::{Anew, OfRun, RunChange, RunStep, RunView, Take};
pub use session::{BeginSession, EndSession};
pub use settle::{LandedResult, Settle};
pub use texts::{GATE, Text};

pub use crate::ledger::Row;

use serde::{Deserialize, Serialize};

use crate::{
    Epoch, TaskId, Timestamp, WorkerId,
    ledger::Ledger,
    role::{Attempt, Whose},
    task::Task,
};

/// A request to change a ledger. [`decide`] decides it and a store makes the result durable. There
/// is no other way to change a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each says what it does at its struct")]
pub enum Command {
    Add(Add),
    Edit(Edit),
    Remove(Remove),
    /// It has no form for another process: a plan is sent as its text.
    #[serde(skip)]
    Import(Import),
    /// Removes all tasks. The store archives the ledger first.
    Reset,
    Claim(Claim),
    /// Records what must be recorded before a task is chosen: leases that ran out, and tasks that
    /// can never run.
    Upkeep,
    Adopt(Adopt),
    Checkpoint(AddCheckpoint),
    Renew(Renew),
    Intend(Intend),
    VoidIntent(VoidIntent),
    Landing(Landing),
    Evict(Evict),
    TakeOver(TakeOver),
    SetMode(SetMode),
    SetTarget(SetTarget),
    Divert(Divert),
    Settle(Settle),
    HoldGate(HoldGate),
    Complete(Complete),
    Fail(Fail),
    Retry(Retry),
    Reopen(Reopen),
    Release(Release),
    BeginSession(BeginSession),
    EndSession(EndSession),
    PassGate(PassGate),
    EditPhase(EditPhase),
    RemovePhase(RemovePhase),
    ConfigureSession(ConfigureSession),
    Pause(Pause),
    Resume(Resume),
    Note(Note),
    Raise(Raise),
    /// Records that a person has looked at the alerts of the head.
    Acknowledge,
    /// A command about a run. A store of runs decides it; a ledger refuses it.
    #[serde(skip)]
    Run(Box<OfRun>),
}

/// Returns the change that `command` makes to `ledger` at `now`, or the reason why it makes none.
pub fn decide(ledger: &Ledger, now: Timestamp, command: &Command) -> Result<Change, Refusal> {
    match command {
        Command::Add(c) => c.decide(ledger),
        Command::Edit(c) => c.decide(ledger),
        Command::Remove(c) => c.decide(ledger),
        Command::Import(c) => c.decide(ledger),
        Command::Reset => Ok(import::reset(ledger)),
        Command::Claim(c) => c.decide(ledger, now),
        Command::Upkeep => Ok(upkeep::upkeep(ledger, now)),
        Command::Adopt(c) => c.decide(ledger, now),
        Command::Checkpoint(c) => c.decide(ledger, now),
        Command::Renew(c) => c.decide(ledger, now),
        Command::Intend(c) => c.decide(ledger, now),
        Command::VoidIntent(c) => c.decide(ledger),
        Command::Landing(c) => c.decide(ledger, now),
        Command::Evict(c) => Ok(c.decide(ledger, now)),
        Command::TakeOver(c) => c.decide(ledger, now),
        Command::SetMode(c) => c.decide(ledger),
        Command::SetTarget(c) => Ok(c.decide(ledger)),
        Command::Divert(c) => Ok(c.decide(ledger)),
        Command::Settle(c) => Ok(c.decide(ledger, now)),
        Command::HoldGate(c) => c.decide(ledger, now),
        Command::Complete(c) => c.decide(ledger, now),
        Command::Fail(c) => c.decide(ledger, now),
        Command::Retry(c) => c.decide(ledger),
        Command::Reopen(c) => c.decide(ledger, now),
        Command::Release(c) => c.decide(ledger),
        Command::BeginSession(c) => c.decide(ledger),
        Command::EndSession(c) => c.decide(ledger, now),
        Command::PassGate(c) => c.decide(ledger, now),
        Command::EditPhase(c) => c.decide(ledger),
        Command::RemovePhase(c) => c.decide(ledger),
        Command::ConfigureSession(c) => c.decide(ledger),
        Command::Pause(c) => Ok(c.decide(ledger, now)),
        Command::Resume(c) => Ok(c.decide(ledger)),
        Command::Note(c) => Ok(c.decide(ledger)),
        Command::Raise(c) => Ok(c.decide(ledger, now)),
        Command::Acknowledge => Ok(raise::acknowledge(ledger)),
        Command::Run(c) => Err(Refusal::RunNotFound { run: c.run.clone() }),
    }
}

/// The claim that a caller refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The task.
    pub task: TaskId,
    /// The worker that claims to hold it.
    pub worker: WorkerId,
    /// The epoch of the claim. It is checked if it is set.
    pub epoch: Option<Epoch>,
}

impl Holder {
    /// Returns the task if this holder still has it. A lease that ran out does not end the claim;
    /// only a command that takes or fails the task does.
    fn claimed<'a>(&self, ledger: &'a Ledger) -> Result<&'a Task, Refusal> {
        let task = find(ledger, &self.task)?;
        if self.holds(task) { Ok(task) } else { Err(self.refused()) }
    }

    /// Returns whether this holder has the current claim of `task`.
    pub fn holds(&self, task: &Task) -> bool {
        task.id == self.task
            && task.claim().is_some_and(|claim| claim.by.as_ref() == Some(&self.worker))
            && self.epoch.is_none_or(|e| task.epoch == Some(e))
    }

    fn refused(&self) -> Refusal {
        Refusal::NotClaimedBy { task: self.task.clone(), worker: self.worker.clone() }
    }
}

impl Attempt {
    /// Returns whether the claim of `holder` belongs to this attempt.
    pub fn whose(&self, holder: &Holder) -> Whose {
        let is_own =
            self.task == holder.task && holder.epoch.is_none_or(|epoch| epoch == self.epoch);
        if is_own { Whose::Own } else { Whose::Other }
    }
}

fn find<'a>(ledger: &'a Ledger, id: &TaskId) -> Result<&'a Task, Refusal> {
    ledger.task(id).ok_or_else(|| Refusal::NotFound { task: id.clone() })
}
