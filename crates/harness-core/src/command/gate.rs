//! Records that the gate of a phase passed.

use super::{Change, Refusal, Reply};
use crate::{Timestamp, fact::Fact, ledger::Ledger};

/// Records that a phase passed: its check passed, and a person agreed if one is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassGate {
    /// The name of the phase.
    pub phase: String,
    /// The person who approved it, if one was asked and is known.
    pub by: Option<String>,
}

impl PassGate {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut head = ledger.head().clone();
        let Some(phase) = head.phases.iter_mut().find(|p| p.name == self.phase) else {
            return Err(Refusal::BadValue(format!("there is no phase {}", self.phase)));
        };
        if phase.passed_at.is_some() {
            return Ok(Change::reply(Reply::Noted));
        }
        phase.passed_at = Some(now);
        let facts = vec![Fact::GatePassed { phase: self.phase.clone(), by: self.by.clone() }];
        Ok(Change { head: Some(head), rows: Vec::new(), facts, reply: Reply::Noted })
    }
}
