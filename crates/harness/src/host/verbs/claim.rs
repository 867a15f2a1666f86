//! Gives the next task to a worker, which may wait for one.

use std::{path::Path, sync::Arc, time::Duration};

use harness_core::{
    Command, CommitId, Reply, Task, Timestamp,
    command::{Claim, ClaimChoice, Claimed, Code, Note, Place},
    lease::{CLIENT_LEASE_SECONDS, LEASE_SECONDS_MAX},
    task::Via,
};
use tokio::time::Instant;

use super::{
    super::{Daemon, server::Host},
    Handled, gate, state,
};
use crate::{
    home::{FileStamp, Home},
    protocol::{Answer, Refused, TaskClaim},
    store::{StoreError, WriterError},
};

/// The longest wait for one answer.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// The interval of looks at the file while a worker waits, because edits by other processes send no
/// notice.
const OUTSIDE: Duration = Duration::from_secs(1);

pub(super) async fn claim(host: &Host, daemon: &Arc<Daemon>, request: TaskClaim) -> Handled {
    let TaskClaim { worker_id, role, labels, wait_ms, lease_seconds } = request;
    let wait = Duration::from_millis(wait_ms.unwrap_or(0)).min(WAIT_MAX);
    let claim = Claim {
        worker: worker_id,
        via: Via::Client,
        role,
        labels,
        choice: ClaimChoice::Next,
        lease_seconds: lease_seconds.unwrap_or(CLIENT_LEASE_SECONDS).min(LEASE_SECONDS_MAX),
        place: Place::default(),
        parallel: None,
    };
    let deadline = Instant::now() + wait;
    let mut changes = daemon.changes();
    loop {
        changes.mark_unchanged();
        let (seen, asked) = (version(&host.root), daemon.clock.now());
        let mut claimed = match once(host, daemon, &claim).await {
            // A pause may end within the time.
            Err(why) if why.code == Code::Paused && Instant::now() < deadline => None,
            claimed => claimed?,
        };
        if claimed.is_none() && !daemon.is_closing() && gate::open(host).await? {
            claimed = once(host, daemon, &claim).await?;
        }
        if claimed.is_some() || Instant::now() >= deadline || daemon.leaving.is_cancelled() {
            return Ok(Answer::Claimed(claimed.map(|claimed| Box::new((&*claimed).into()))));
        }
        tokio::select! {
            _ = changes.changed() => {}
            () = time_passed(host, daemon, seen, asked) => {}
            () = tokio::time::sleep_until(deadline) => {}
            () = daemon.leaving.cancelled() => {}
        }
    }
}

/// Returns `None` if nothing is ready, or if there is no ledger.
async fn once(
    host: &Host,
    daemon: &Arc<Daemon>,
    claim: &Claim,
) -> Result<Option<Box<Claimed>>, Refused> {
    let mut claim = claim.clone();
    // A client does its own git work, so only HEAD of the repository is read.
    claim.place.base = head(daemon).await;
    // From here to the writer's queue nothing else runs, so a close sees everything that was given
    // out.
    if daemon.is_closing() {
        return Ok(None);
    }
    let worker = claim.worker.clone();
    match host.writer.apply_async(Command::Claim(claim)).await {
        Ok(Reply::Claimed(claimed)) => {
            let task = &claimed.task;
            // A repeated claim keeps its rules and settings.
            let mut changed = None;
            if !claimed.is_retry {
                changed = daemon.claimed(&task.id, claimed.epoch);
                record_settings(host, daemon, task).await;
            }
            daemon.gave(&host.root, &task.id, &worker, task.lease_expires_at());
            if let Some(message) = changed {
                let note = Command::Note(Note::Warning { task: None, message });
                // The claim is valid, whatever happens to the log line.
                if let Err(why) = host.writer.apply_async(note).await {
                    (daemon.surroundings.warn)(&why.to_string());
                }
            }
            Ok(Some(claimed))
        }
        Ok(Reply::NothingToClaim) => Ok(None),
        Ok(other) => Err(format!("unexpected answer: {other:?}").into()),
        Err(WriterError::Store(why)) if matches!(*why, StoreError::NoLedger { .. }) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// Returns HEAD of the work tree. A thread blocks for it only if git must be asked.
pub(super) async fn head(daemon: &Daemon) -> Option<CommitId> {
    if let Some(head) = daemon.workshop.head_at_once() {
        return head;
    }
    let workshop = Arc::clone(&daemon.workshop);
    tokio::task::spawn_blocking(move || workshop.head()).await.unwrap_or(None)
}

/// Records git's settings. There is nothing to record for a task without a check, or without a
/// repository.
async fn record_settings(host: &Host, daemon: &Arc<Daemon>, task: &Task) {
    if task.check().is_none() || task.started_at_commit.is_none() {
        return;
    }
    let (daemon, root, task) = (Arc::clone(daemon), host.root.clone(), task.clone());
    let recorded = tokio::task::spawn_blocking(move || daemon.record_settings(&root, &task));
    // It returns no error. Only the end of the runtime interrupts it.
    let _ = recorded.await;
}

/// Completes when a lease has run out since `asked`, or when another program has written the
/// ledger.
async fn time_passed(host: &Host, daemon: &Daemon, seen: Option<FileStamp>, asked: Timestamp) {
    let lease = state::seen(host, move |ledger| {
        let leases = ledger.selection().claimed().filter_map(|id| ledger.task(id));
        leases.filter_map(|task| task.lease_expires_at()).find(|end| *end > asked)
    });
    let due = lease.await.ok().flatten().flatten();
    let now = daemon.clock.now();
    let due = due.map(|end: Timestamp| Instant::now() + Duration::from_secs(end.since(now)));
    loop {
        let look = Instant::now() + OUTSIDE;
        tokio::time::sleep_until(due.map_or(look, |due| due.min(look))).await;
        if due.is_some_and(|due| Instant::now() >= due) || version(&host.root) != seen {
            return;
        }
    }
}

fn version(root: &Path) -> Option<FileStamp> {
    FileStamp::at(&Home::of(root).ledger()).map(FileStamp::of_content)
}
