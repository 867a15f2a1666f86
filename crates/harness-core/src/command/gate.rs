//! Records that the gate of a phase passed, and which of several workers tries it.

use serde::{Deserialize, Serialize};

use super::{Change, Refusal, Reply};
use crate::{
    Timestamp, WorkerId,
    fact::Fact,
    ledger::{Gate, GateHold, Ledger, Phase},
};

/// The time for which a worker has the gate of a phase without a sign of life.
const HOLD_SECONDS: u64 = 60;

/// Takes the gate of a phase for one of several workers, or gives it back. A worker that has it
/// renews it in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldGate {
    /// The name of the phase.
    pub phase: String,
    /// The worker.
    pub worker: WorkerId,
    /// What it does.
    pub hold: Hold,
}

/// What a worker does with the gate of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hold {
    /// It takes or renews it.
    Take,
    /// It gives it back.
    Release,
}

impl HoldGate {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut head = ledger.head().clone();
        let Some(phase) = head.phases.iter_mut().find(|p| p.name == self.phase) else {
            return Err(Refusal::NoSuchPhase { phase: self.phase.clone() });
        };
        let mine = phase.held.as_ref().is_none_or(|held| held.by == self.worker);
        let free = mine || phase.held.as_ref().is_some_and(|held| held.until <= now);
        phase.held = match self.hold {
            Hold::Take if phase.passed_at.is_some() || !free => {
                return Err(Refusal::GateHeld { phase: self.phase.clone() });
            }
            Hold::Take => Some(GateHold { by: self.worker.clone(), until: now.plus(HOLD_SECONDS) }),
            Hold::Release if mine => None,
            Hold::Release => return Ok(Change::reply(Reply::Noted)),
        };
        Ok(Change { head: Some(head), rows: Vec::new(), facts: Vec::new(), reply: Reply::Noted })
    }
}

/// Records that a phase passed: its check passed, and a person agreed if one is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassGate {
    /// The name of the phase.
    pub phase: String,
    /// The gate that was tried.
    pub gate: Option<Gate>,
    /// `true` if a person was asked.
    pub asked: bool,
    /// The person who approved it, if one was asked and is known.
    pub by: Option<String>,
}

impl PassGate {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut head = ledger.head().clone();
        let Some(phase) = head.phases.iter_mut().find(|p| p.name == self.phase) else {
            return Err(Refusal::NoSuchPhase { phase: self.phase.clone() });
        };
        if phase.passed_at.is_some() {
            return Ok(Change::reply(Reply::Noted));
        }
        if !self.satisfies(phase) {
            return Err(Refusal::GateChanged { phase: self.phase.clone() });
        }
        phase.passed_at = Some(now);
        phase.held = None;
        let facts = vec![Fact::GatePassed { phase: self.phase.clone(), by: self.by.clone() }];
        Ok(Change { head: Some(head), rows: Vec::new(), facts, reply: Reply::Noted })
    }

    /// Returns whether everything that the phase requires now was tried. Another time limit does
    /// not matter.
    fn satisfies(&self, phase: &Phase) -> bool {
        let command = |gate: &Option<Gate>| gate.as_ref().map(|gate| gate.command.clone());
        let same = phase.gate.is_none() || command(&phase.gate) == command(&self.gate);
        same && (self.asked || !phase.approve)
    }
}
