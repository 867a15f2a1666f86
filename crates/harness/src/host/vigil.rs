//! The claims that a daemon gave out, with their leases by a monotonic clock.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harness_core::{Fact, TaskId, WorkerId};
use tokio::{sync::Notify, time::Instant};

use crate::store::alive::{self, Alive};

#[derive(Debug, Default)]
pub(super) struct Vigil {
    claims: Mutex<HashMap<TaskId, Watched>>,
    changed: Notify,
}

#[derive(Debug)]
struct Watched {
    until: Instant,
    worker: WorkerId,
    _alive: Alive,
}

impl Vigil {
    fn claims(&self) -> MutexGuard<'_, HashMap<TaskId, Watched>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the worker holds the task for this time from now.
    pub(super) fn watch(&self, root: &Path, task: &TaskId, worker: &WorkerId, lease: Duration) {
        let Some(until) = Instant::now().checked_add(lease) else { return };
        let mut claims = self.claims();
        match claims.get_mut(task).filter(|watched| watched.worker == *worker) {
            Some(watched) => watched.until = until,
            None => {
                // The worker no longer holds its last task.
                claims.retain(|_, watched| watched.worker != *worker);
                match alive::vouch(root, worker) {
                    Ok(Some(alive)) => {
                        let worker = worker.clone();
                        claims.insert(task.clone(), Watched { until, worker, _alive: alive });
                    }
                    Ok(None) => {}
                    Err(why) => tracing::warn!(%why, "a lease is measured by the clock alone"),
                }
            }
        }
        drop(claims);
        self.changed.notify_one();
    }

    /// Removes claims that have ended.
    pub(super) fn heard(&self, facts: &[Fact]) {
        for fact in facts {
            match fact {
                Fact::Completed { task, .. }
                | Fact::Failed { task, .. }
                | Fact::Recovered { task, .. }
                | Fact::Removed { task } => _ = self.claims().remove(task),
                Fact::PlanReplaced { .. } | Fact::PlanReset { .. } => self.claims().clear(),
                _ => {}
            }
        }
    }

    /// Returns the tasks whose leases are not over.
    pub(super) fn tasks(&self) -> BTreeSet<TaskId> {
        self.claims().keys().cloned().collect()
    }

    /// Ends leases when they are over, and calls `ended` then. It never returns.
    pub(super) async fn keep(&self, ended: impl Fn()) {
        loop {
            let first = self.claims().values().map(|watched| watched.until).min();
            let due = async {
                match first {
                    Some(first) => tokio::time::sleep_until(first).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => continue,
                () = due => {}
            }
            let now = Instant::now();
            self.claims().retain(|_, watched| watched.until > now);
            ended();
        }
    }
}
