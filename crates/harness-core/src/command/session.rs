//! The start and the end of a session over the ledger.

use serde::{Deserialize, Serialize};

use super::{Change, Refusal, Reply};
use crate::{Timestamp, fact::Fact, ledger::Ledger, stats::Stats};

/// Starts a session. It is refused when `max_sessions` is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginSession {
    /// The process id, for the log.
    pub pid: u32,
    /// A limit that replaces the one of the ledger.
    pub max_sessions: Option<i64>,
}

/// Ends a session and writes the numbers of the ledger to the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndSession {
    /// The process id, for the log.
    pub pid: u32,
}

impl BeginSession {
    /// A limit of N allows N sessions. Zero or less means no limit.
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let mut head = ledger.head().clone();
        let max_sessions = self.max_sessions.unwrap_or(head.session_config.max_sessions);
        if max_sessions > 0 && head.session_count >= max_sessions.unsigned_abs() {
            return Err(Refusal::MaxSessions { max_sessions });
        }
        head.session_count = head.session_count.saturating_add(1);
        head.session_claims = 0;
        let reply = Reply::Session { number: head.session_count };
        let facts = vec![Fact::LockAcquired { pid: self.pid }];
        Ok(Change { head: Some(head), rows: Vec::new(), facts, reply })
    }
}

impl EndSession {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut head = ledger.head().clone();
        head.last_session = Some(now);
        let reply = Reply::Session { number: head.session_count };
        let facts = vec![Fact::Stats(Stats::of(ledger)), Fact::LockReleased { pid: self.pid }];
        Ok(Change { head: Some(head), rows: Vec::new(), facts, reply })
    }
}
