//! Makes the intent of a change to git durable before git is touched.

use serde::{Deserialize, Serialize};

use super::{Change, Holder, Refusal, Reply};
use crate::{Timestamp, fact::Fact, ledger::Ledger, line, task::Intent};

/// Records an intent. From now on, only this intent can finish the attempt. A repetition is
/// accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intend {
    /// The holder of the claim.
    pub holder: Holder,
    /// The intended change to git.
    pub intent: Intent,
    /// The check that the result passed. Nothing lands if the task has another check now.
    pub check: Option<String>,
    /// The files that a landing changes. Nothing lands in a file that another task reserves now.
    pub files: Vec<String>,
}

/// Withdraws an intent to land that did not happen. A rollback is never withdrawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoidIntent {
    /// The holder of the claim.
    pub holder: Holder,
}

impl Intend {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut task = self.holder.claimed(ledger)?.clone();
        let id = task.id.clone();
        let lands = matches!(self.intent, Intent::Land { .. });
        let held_back = lands && line::held_back(ledger, &id, &self.files, now).is_some();
        let unsettled = lands && ledger.head().unsettled.is_some();
        let changed = lands && task.check() != self.check.as_deref();
        let Some(claim) = task.claim_mut() else { return Err(self.holder.refused()) };
        match &claim.intent {
            // The command was repeated because its answer got lost.
            Some(same) if *same == self.intent => return Ok(Change::reply(Reply::Task(id))),
            Some(_) => return Err(Refusal::Undecided { task: id }),
            None if unsettled => return Err(Refusal::Unsettled),
            None if changed => return Err(Refusal::CheckChanged { task: id }),
            None if held_back => return Err(Refusal::NotReady { task: id }),
            None => claim.intent = Some(self.intent.clone()),
        }
        let fact = Fact::Intended { task: id.clone(), intent: self.intent.clone() };
        Ok(Change::put(task, fact, Reply::Task(id)))
    }
}

impl VoidIntent {
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let mut task = self.holder.claimed(ledger)?.clone();
        let id = task.id.clone();
        let claim = task.claim_mut();
        match claim.and_then(|claim| claim.intent.take()) {
            None => Ok(Change::reply(Reply::Task(id))),
            Some(Intent::Rollback { .. }) => Err(Refusal::Undecided { task: id }),
            Some(Intent::Land { .. }) => {
                Ok(Change::put(task, Fact::IntentVoided { task: id.clone() }, Reply::Task(id)))
            }
        }
    }
}
