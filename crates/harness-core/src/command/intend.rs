//! What is about to be done to git is made durable first.

use super::{Change, Holder, Refusal, Reply};
use crate::{fact::Fact, ledger::Ledger, task::Intent};

/// From now on the attempt is finished by this intent and by nothing else. Said twice, it is fine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intend {
    /// Whose claim it is.
    pub holder: Holder,
    /// What will be done to git.
    pub intent: Intent,
}

/// Takes back an intent to land that did not happen. A rollback is never taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoidIntent {
    /// Whose claim it is.
    pub holder: Holder,
}

impl Intend {
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let mut task = self.holder.claimed(ledger)?.clone();
        let id = task.id.clone();
        let Some(claim) = task.claim_mut() else { return Err(self.holder.refused()) };
        match &claim.intent {
            // Said twice, after an answer that got lost.
            Some(same) if *same == self.intent => return Ok(Change::reply(Reply::Task(id))),
            Some(_) => return Err(Refusal::Undecided { task: id }),
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
