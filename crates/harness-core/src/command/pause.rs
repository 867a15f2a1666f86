//! Stops and starts claiming, for all workers of a ledger.

use serde::{Deserialize, Serialize};

use super::{Change, Reply};
use crate::{Timestamp, fact::Fact, ledger::Ledger, role::Author};

/// Stops claiming. Attempts that have begun go on to their end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The process that asked for it, if it is known. The log names it.
    pub by: Option<Author>,
}

/// Starts claiming again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The process that asked for it, if it is known. The log names it.
    pub by: Option<Author>,
}

impl Pause {
    /// A second pause changes nothing, so that the time of the first one stays.
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Change {
        match ledger.head().paused_at {
            Some(_) => Change::reply(Reply::Noted),
            None => change(ledger, Some(now), Fact::Paused { by: named(self.by.as_ref()) }),
        }
    }
}

impl Resume {
    pub(super) fn decide(&self, ledger: &Ledger) -> Change {
        match ledger.head().paused_at {
            Some(_) => change(ledger, None, Fact::Resumed { by: named(self.by.as_ref()) }),
            None => Change::reply(Reply::Noted),
        }
    }
}

fn named(by: Option<&Author>) -> Option<String> {
    by.map(ToString::to_string)
}

fn change(ledger: &Ledger, paused_at: Option<Timestamp>, fact: Fact) -> Change {
    let mut head = ledger.head().clone();
    head.paused_at = paused_at;
    Change { head: Some(head), rows: Vec::new(), facts: vec![fact], reply: Reply::Noted }
}
