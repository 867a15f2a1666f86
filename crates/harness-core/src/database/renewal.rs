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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{
        Command, Holder, TaskId, Timestamp, WorkerId,
        command::{Add, AddCheckpoint, Claim, ClaimChoice, Edit, Place, Renew},
        decide,
        ledger::Head,
        task::Via,
    };

    fn claimed() -> (Ledger, Holder) {
        let at = Timestamp::from_seconds(1);
        let mut ledger = Ledger::new(Head::new(at), Vec::new()).unwrap();
        let (task, worker) = (TaskId::parse("a").unwrap(), WorkerId::recorded("w"));
        let fields = Edit::nothing(task.clone());
        let add = Command::Add(Add { id: Some(task.clone()), title: "a".to_owned(), fields });
        let claim = Command::Claim(Claim {
            worker: worker.clone(),
            via: Via::Run,
            role: None,
            labels: Vec::new(),
            choice: ClaimChoice::Next,
            lease_seconds: 60,
            place: Place::default(),
            parallel: None,
        });
        for command in [add, claim] {
            let change = decide(&ledger, at, &command).unwrap();
            assert_eq!(renewals(&ledger, &change), None, "{command:?}");
            ledger.put_in(&change);
        }
        (ledger, Holder { task, worker, epoch: None })
    }

    #[test]
    fn a_renewal_is_told_from_every_other_change() {
        let (mut ledger, holder) = claimed();
        let now = Timestamp::from_seconds(50);
        let renew = Command::Renew(Renew::new(holder.clone(), 60));
        let change = decide(&ledger, now, &renew).unwrap();
        let [lease] = &renewals(&ledger, &change).unwrap()[..] else { panic!("{change:?}") };
        assert_eq!((lease.epoch.0, lease.expires_at), (1, now.plus(60)));
        let progress = Command::Checkpoint(AddCheckpoint {
            holder,
            step: 1,
            total: 2,
            description: "half".to_owned(),
            tree: None,
            lease_seconds: 60,
        });
        assert_eq!(renewals(&ledger, &decide(&ledger, now, &progress).unwrap()), None);
        let mut laid_over = ledger.clone();
        assert!(laid_over.put_lease(lease));
        ledger.put_in(&change);
        assert!(laid_over.tasks().eq(ledger.tasks()));
        let late = RenewedLease { epoch: crate::Epoch(9), ..lease.clone() };
        assert!(!ledger.put_lease(&late), "another claim has the task");
    }
}
