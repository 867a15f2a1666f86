//! The part of the work that one worker did.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{LandedEntry, WorkerCard};

/// What one worker did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorkerShare {
    /// The worker.
    pub id: String,
    /// The number of tasks that it completed.
    pub landed: usize,
    /// The time that the attempts at these tasks took.
    pub seconds: u64,
    /// The cost of these attempts; `None` if no agent reported a price.
    pub cost_usd: Option<f64>,
    /// The task that it holds.
    pub task_id: Option<String>,
    /// What it does; `None` if it is not there any more.
    pub state: Option<&'static str>,
}

impl WorkerShare {
    /// Returns the share of each worker, sorted by id.
    pub(super) fn of(landed: &[LandedEntry], workers: &[WorkerCard]) -> Vec<Self> {
        let mut shares: BTreeMap<&str, Self> = BTreeMap::new();
        for worker in workers {
            let share = share(&mut shares, &worker.id);
            share.state = Some(worker.state.name());
            share.task_id.clone_from(&worker.task_id);
        }
        for (entry, worker) in landed.iter().filter_map(|e| Some((e, e.worker.as_deref()?))) {
            let share = share(&mut shares, worker);
            share.landed += 1;
            share.seconds += entry.spending.seconds;
            if let Some(cost) = entry.spending.cost_usd {
                share.cost_usd = Some(share.cost_usd.unwrap_or(0.0) + cost);
            }
        }
        shares.into_values().collect()
    }
}

fn share<'s, 'w>(
    shares: &'s mut BTreeMap<&'w str, WorkerShare>,
    worker: &'w str,
) -> &'s mut WorkerShare {
    shares.entry(worker).or_insert_with(|| WorkerShare {
        id: worker.to_owned(),
        landed: 0,
        seconds: 0,
        cost_usd: None,
        task_id: None,
        state: None,
    })
}
