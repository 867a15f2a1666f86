//! A holder tells how far it came.

use super::{Change, Holder, Refusal, Reply};
use crate::{Timestamp, TreeId, fact::Fact, lease, ledger::Ledger, task::Checkpoint};

/// Also renews the lease: whoever comes further is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddCheckpoint {
    /// Whose claim it is.
    pub holder: Holder,
    /// From 1 to `total`.
    pub step: u32,
    /// How many steps the worker expects.
    pub total: u32,
    /// What is done now.
    pub description: String,
    /// The work tree as it stands, where it can be read.
    pub tree: Option<TreeId>,
    /// From now on, for the claim of a session; a client's is the task's own.
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
        task.push_checkpoint(Checkpoint {
            step: self.step,
            total: self.total,
            description: self.description.clone(),
            timestamp: Some(now),
            tree: self.tree.clone(),
        });
        let expires_at = lease::grant(&mut task, self.lease_seconds, now);
        let id = task.id.clone();
        let fact = Fact::Checkpointed {
            task: id.clone(),
            step: self.step,
            total: self.total,
            description: self.description.clone(),
        };
        Ok(Change::put(task, fact, Reply::Lease { task: id, expires_at }))
    }
}
