//! A session takes over what an interrupted one left, to recover it.

use super::{Change, Claimed, Refusal, Reply, find};
use crate::{TaskId, Timestamp, WorkerId, fact::Fact, lease, ledger::Ledger};

/// The attempt goes on: same epoch, same base; the reply is the task as adopted. Whoever asks holds the lock of the session that is
/// gone, or saw its lease run out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopt {
    /// Found `in_progress`; anything else is refused.
    pub task: TaskId,
    /// Who goes on with it: the claim is in this name from now on.
    pub worker: WorkerId,
    /// The lease of a session's claim; a client's is the task's own.
    pub lease_seconds: u64,
    /// What is going to be done about it, and why: for the log.
    pub action: String,
    /// The `reason="…"` of the RECOVERY line.
    pub reason: String,
}

impl Adopt {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let found = find(ledger, &self.task)?;
        let mut task = found.clone();
        let Some(claim) = task.claim_mut() else {
            return Err(Refusal::NotClaimed { task: found.id.clone(), status: found.status() });
        };
        claim.by = Some(self.worker.clone());
        // A hand-made claim may have none, and without one nothing could be fenced.
        let mut head = None;
        if task.epoch.is_none() {
            let epoch = ledger.next_epoch();
            task.epoch = Some(epoch);
            head = Some(crate::ledger::Head { epoch, ..ledger.head().clone() });
        }
        lease::grant(&mut task, self.lease_seconds, now);
        let fact = Fact::Recovered {
            task: task.id.clone(),
            action: self.action.clone(),
            reason: self.reason.clone(),
        };
        let epoch = task.epoch.unwrap_or_default();
        let claimed = Claimed { task: task.clone(), epoch, is_retry: false, is_reclaim: true };
        let reply = Reply::Claimed(Box::new(claimed));
        Ok(Change { head, ..Change::put(task, fact, reply) })
    }
}
