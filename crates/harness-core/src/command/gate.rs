//! The gate of a phase passed.

use super::{Change, Refusal, Reply};
use crate::{Timestamp, fact::Fact, ledger::Ledger};

/// What a phase waited for has come: its check passed, and a person agreed where one is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassGate {
    /// Its name.
    pub phase: String,
    /// Who approved it, where a person was asked and that is known.
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
