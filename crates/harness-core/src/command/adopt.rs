//! Takes over a task that an interrupted session left, so that it can be recovered.

use serde::{Deserialize, Serialize};

use super::{Change, Claimed, Refusal, Reply, find};
use crate::{TaskId, Timestamp, WorkerId, fact::Fact, lease, ledger::Ledger};

/// Continues an attempt with the same epoch and the same base. The reply is the adopted task. The
/// caller holds the lock of the dead session, or saw its lease run out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopt {
    /// The task, which must be `in_progress`.
    pub task: TaskId,
    /// The worker that continues. The claim is in its name from now on.
    pub worker: WorkerId,
    /// The lease of a session's claim. A client's lease comes from the task.
    pub lease_seconds: u64,
    /// The planned recovery and its reason, for the log.
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
        // A claim that was written by hand may have no epoch, and without one it cannot be fenced.
        let mut head = None;
        if task.epoch.is_none() {
            let epoch = ledger.next_epoch();
            task.epoch = Some(epoch);
            head = Some(crate::ledger::Head { epoch, ..ledger.head().clone() });
        }
        lease::renew(&mut task, self.lease_seconds, now);
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
