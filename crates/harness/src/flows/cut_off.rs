//! The end of an attempt whose agent was stopped because the claim could not be renewed in time: its work
//! is saved, and when the store is back, it shows whether the claim is still that of this worker.

use harness::{
    Error, Result,
    core::{Task, machine::attempt::AttemptEnd},
    workspace::shared::{BackedUp, Backup},
};

use super::{Bench, OwnPlace, fence::Watch};

/// Determines whether the claim is still that of this worker, when the store can be reached. `bench` is the
/// one of the worker, which waits longer than the attempt did.
pub(super) async fn look_at_claim(bench: &Bench, task: &Task, watch: &Watch) -> Result<AttemptEnd> {
    if bench.tools.hold.is_cut_off() {
        save(bench, task).await?;
    }
    match bench.tools.ports.commit.commit(watch.renewal()).await {
        Ok(Ok(_)) => Ok(AttemptEnd::Paused),
        Ok(Err(_)) => {
            rescue(bench, task).await?;
            Ok(AttemptEnd::Lost)
        }
        Err(why) => Err(Error::Commit(why)),
    }
}

/// Saves the work for whichever worker continues it. Others find a snapshot on the remote. If there is none,
/// because the remote is away too or unfinished work is not shared, the work is kept on this machine.
async fn save(bench: &Bench, task: &Task) -> Result<()> {
    let pushed = match &bench.own {
        Some(place) if place.shared.backup_interval.is_some() => push(place, task).await?,
        _ => Pushed::No,
    };
    match pushed {
        Pushed::Yes => Ok(()),
        Pushed::No => rescue(bench, task).await,
    }
}

/// Whether a snapshot is on the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pushed {
    Yes,
    No,
}

async fn push(place: &OwnPlace, task: &Task) -> Result<Pushed> {
    let Some(base) = task.started_at_commit.clone() else { return Ok(Pushed::No) };
    let (id, epoch) = (task.id.clone(), task.epoch.unwrap_or_default());
    let saved = place.repository(move |git, worker| {
        git.remote()
            .is_some()
            .then(|| git.back_up(worker, &Backup { task: &id, epoch, base: &base }))
    });
    Ok(match saved.await? {
        Some(Ok(BackedUp::Saved)) => Pushed::Yes,
        Some(Ok(BackedUp::Not)) => Pushed::No,
        Some(Err(why)) => {
            tracing::warn!(%why, "no snapshot of the unfinished work; it is kept on this machine");
            Pushed::No
        }
        None => Pushed::No,
    })
}

/// Keeps the work of an attempt under a ref of its own.
pub(super) async fn rescue(bench: &Bench, task: &Task) -> Result<()> {
    if let Some(base) = bench.base(task) {
        let (id, attempt) = (task.id.clone(), task.attempts + 1);
        bench.git(move |git| git.rescue(&id, attempt, &base)).await??;
    }
    Ok(())
}
