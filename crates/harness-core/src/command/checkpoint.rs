//! Records the progress of a claim.

use serde::{Deserialize, Serialize};

use super::{Change, Holder, Refusal, Reply};
use crate::{
    Timestamp, TreeId,
    fact::Fact,
    lease,
    ledger::Ledger,
    task::{Checkpoint, Task},
};

/// Adds a checkpoint. It also renews the lease, because progress proves that the holder is alive.
/// A checkpoint that is sent twice is stored once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddCheckpoint {
    /// The holder of the claim.
    pub holder: Holder,
    /// The number of the step, from 1 to `total`.
    pub step: u32,
    /// The number of steps that the worker expects.
    pub total: u32,
    /// A description of the finished step.
    pub description: String,
    /// The current work tree, if it can be read.
    pub tree: Option<TreeId>,
    /// The lease from now on for the claim of a session. A client's lease comes from the task.
    pub lease_seconds: u64,
}

impl AddCheckpoint {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        if self.step == 0 || self.total == 0 || self.step > self.total {
            let (step, total) = (self.step, self.total);
            return Err(Refusal::BadValue(format!(
                "step {step} of {total}: steps count from 1 to the total"
            )));
        }
        let mut task = self.holder.claimed(ledger)?.clone();
        if self.is_stored(&task) {
            // The worker repeats a request whose answer it has not received.
            let expires_at = lease::renew(&mut task, self.lease_seconds, now);
            let id = task.id.clone();
            let fact = Fact::Renewed { task: id.clone(), expires_at };
            return Ok(Change::put(task, fact, Reply::Lease { task: id, expires_at }));
        }
        task.push_checkpoint(Checkpoint {
            step: self.step,
            total: self.total,
            description: self.description.clone(),
            timestamp: Some(now),
            tree: self.tree.clone(),
        });
        let expires_at = lease::renew(&mut task, self.lease_seconds, now);
        let id = task.id.clone();
        let fact = Fact::Checkpointed {
            task: id.clone(),
            step: self.step,
            total: self.total,
            description: self.description.clone(),
        };
        Ok(Change::put(task, fact, Reply::Lease { task: id, expires_at }))
    }

    /// Returns whether the last checkpoint of this attempt is the same. A checkpoint that was
    /// reported with another work tree is not.
    fn is_stored(&self, task: &Task) -> bool {
        task.checkpoints.last().is_some_and(|last| {
            (last.step, last.total, &last.description, &last.tree)
                == (self.step, self.total, &self.description, &self.tree)
                && last.timestamp >= task.claimed_at()
        })
    }
}
