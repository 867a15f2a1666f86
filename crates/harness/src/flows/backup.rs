//! Saves unfinished work for workers of other machines, while an agent works: after each checkpoint, and
//! at an interval.

use std::{future::Future, time::Duration};

use harness::{
    Result,
    core::{Command, Task, TaskId, command::Note},
    workspace::{WorkspaceError, shared::Backup},
};

use super::{Bench, OwnPlace};

/// Does `work`, and meanwhile saves what it left so far.
pub(super) async fn beside<T>(
    bench: &Bench,
    task: &Task,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(place) = &bench.own else { return work.await };
    let Some(interval) = place.shared.backup_interval else { return work.await };
    tokio::select! {
        biased;
        done = work => done,
        () = save_often(bench, place, task, interval) => {
            Err(harness::Error::message("the backup of an attempt does not end"))
        }
    }
}

/// Saves after each checkpoint and at the interval. It never completes.
async fn save_often(bench: &Bench, place: &OwnPlace, task: &Task, interval: Duration) {
    let mut changes = place.shared.changes.follow();
    let first = tokio::time::Instant::now() + interval;
    let mut ticks = tokio::time::interval_at(first, interval);
    let mut steps = checkpoints(bench, &task.id).await;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = changes.changed() => {
                let now = checkpoints(bench, &task.id).await;
                if now == steps {
                    continue;
                }
                steps = now;
            }
        }
        save(bench, place, task).await;
    }
}

/// Returns the number of checkpoints of a task, and the last step.
async fn checkpoints(bench: &Bench, task: &TaskId) -> (usize, Option<u32>) {
    let Ok(ledger) = bench.tools.read_ledger_now().await else { return (0, None) };
    let Some(task) = ledger.task(task) else { return (0, None) };
    (task.checkpoints.len(), task.checkpoints.last().map(|last| last.step))
}

/// Saves once. A failure is a line in the log, because the work goes on without.
async fn save(bench: &Bench, place: &OwnPlace, task: &Task) {
    let Some(base) = task.started_at_commit.clone() else { return };
    let (id, epoch) = (task.id.clone(), task.epoch.unwrap_or_default());
    let saved = place.repository(move |git, worker| {
        git.back_up(worker, &Backup { task: &id, epoch, base: &base })
    });
    let message = match saved.await {
        Ok(Ok(_)) => None,
        Ok(Err(why @ WorkspaceError::Unreachable { .. })) => Some(format!("no snapshot: {why}")),
        Ok(Err(why)) => Some(format!("no snapshot of the unfinished work: {why}")),
        Err(why) => Some(format!("no snapshot of the unfinished work: {why}")),
    };
    if let Some(message) = message {
        let note = Note::Warning { task: Some(task.id.clone()), message };
        // If the store is away, the watch over the claim notices that.
        _ = bench.tools.commit(Command::Note(note)).await;
    }
    _ = log_warnings(bench, &task.id).await;
}

/// Writes to the log what people should know about the repository.
pub(super) async fn log_warnings(bench: &Bench, task: &TaskId) -> Result<()> {
    let Some(place) = &bench.own else { return Ok(()) };
    for message in place.shared.repository.take_warnings() {
        let note = Note::Warning { task: Some(task.clone()), message };
        bench.tools.commit(Command::Note(note)).await?;
    }
    Ok(())
}
