//! Renewals of leases, which are no history.

use crate::{Change, Ledger, ledger::Row, task::RenewedLease};

/// Returns the renewals that a change consists of; `None` if it changes anything else. A store may keep
/// renewals beside the history of changes.
pub fn renewals(ledger: &Ledger, change: &Change) -> Option<Vec<RenewedLease>> {
    if change.head.is_some() {
        return None;
    }
    let renewal = |row: &Row| {
        let Row::Put(task) = row else { return None };
        let (epoch, expires_at) = (task.epoch?, task.lease_expires_at()?);
        let mut before = ledger.task(&task.id)?.clone();
        before.claim_mut()?.lease_expires_at = Some(expires_at);
        (before == **task).then(|| RenewedLease { task: task.id.clone(), epoch, expires_at })
    };
    change.rows.iter().map(renewal).collect()
}
