//! The gate of a phase. A daemon tries it when a worker asks for a task behind it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use harness_core::{
    CommitId, command::GATE, ledger::Phase, machine::gate::GateEnd, task::Status, trust::Kind,
    variables::Variables,
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    super::{
        Daemon,
        server::{Duty, Host},
    },
    state,
};
use crate::{
    conversation::Session,
    cx::Branch,
    drive::Ports,
    error,
    flows::gate::Gatehouse,
    hub::Hub,
    process::Redactor,
    protocol::Refused,
    store::{Commit, refused},
};

/// The time after which a failed gate is tried again for the same commit. A dozen workers that ask
/// for a task must not try it a dozen times.
const AGAIN: Duration = Duration::from_secs(60);

/// The last try.
#[derive(Debug)]
pub(in crate::host) struct Tried {
    phase: Phase,
    head: Option<CommitId>,
    when: Instant,
    /// `true` while a person is asked and has not answered.
    asking: Arc<AtomicBool>,
}

/// A notice for a waiting worker.
enum News {
    /// A person is asked, which may take days.
    Asks,
    Ended(error::Result<GateEnd>),
}

/// Returns whether the due gate has just passed, so that there may be a task.
pub(super) async fn open(host: &Host) -> Result<bool, Refused> {
    let Duty::Daemon(daemon) = &host.duty else { return Ok(false) };
    let Some(phase) = due(host).await? else { return Ok(false) };
    // A second request waits for the result of the first.
    let mut tried = daemon.gate.lock().await;
    let head = super::claim::head(daemon).await;
    let same = |t: &Tried| {
        let is_fresh = t.head == head && t.when.elapsed() < AGAIN;
        same_terms(&t.phase, &phase) && (t.asking.load(Ordering::Relaxed) || is_fresh)
    };
    if tried.as_ref().is_some_and(same) {
        return Ok(due(host).await?.is_none());
    }
    if let Some(gate) = &phase.gate {
        (daemon.surroundings.may_run)(Kind::Gate, &gate.command)?;
        if let Some(refusal) = refused(GATE, &gate.command, &host.secrets) {
            return Err(refusal.into());
        }
    }
    let asking = Arc::new(AtomicBool::new(false));
    let (of, when) = (phase.clone(), Instant::now());
    *tried = Some(Tried { phase: of, head, when, asking: Arc::clone(&asking) });
    // One notice is received here, and another may follow when nothing receives it any more.
    let (sender, mut news) = mpsc::channel(2);
    let gatehouse = gatehouse(host, daemon, Arc::clone(&asking), sender.clone());
    tokio::spawn(pass(gatehouse, Arc::clone(daemon), phase, asking, sender));
    match news.recv().await {
        Some(News::Ended(outcome)) => Ok(outcome? == GateEnd::Passed),
        Some(News::Asks) | None => Ok(false),
    }
}

/// Returns whether the two are one phase with the same gate.
fn same_terms(one: &Phase, other: &Phase) -> bool {
    (&one.name, &one.gate, one.approve) == (&other.name, &other.gate, other.approve)
}

fn gatehouse(
    host: &Host,
    daemon: &Daemon,
    asking: Arc<AtomicBool>,
    news: mpsc::Sender<News>,
) -> Gatehouse {
    Gatehouse {
        ports: Ports {
            commit: Arc::clone(&host.writer) as Arc<dyn Commit>,
            clock: Arc::clone(&daemon.clock),
            tick: Duration::from_secs(host.lease_seconds.max(1)),
        },
        shell: daemon.workshop.shell(),
        root: host.root.clone(),
        directory: daemon.workshop.directory().to_owned(),
        environment: Variables::of_root(host.root.display()).list(),
        redactor: Redactor::default(),
        session: Some(Session { hub: host.hub.clone() }),
        asking: Arc::new(move || {
            asking.store(true, Ordering::Relaxed);
            // A worker that is gone waits for nothing.
            _ = news.try_send(News::Asks);
        }),
        until: None,
    }
}

/// Runs the gate to its end, whether or not the first worker still waits. A daemon that ends stops
/// the check and withdraws the question.
async fn pass(
    gatehouse: Gatehouse,
    daemon: Arc<Daemon>,
    phase: Phase,
    asking: Arc<AtomicBool>,
    news: mpsc::Sender<News>,
) {
    let hub = Hub::new("gate");
    let branch = Branch::alone((), hub.clone());
    let outcome = {
        let passing = gatehouse.pass(&branch, phase, None);
        tokio::pin!(passing);
        tokio::select! {
            biased;
            outcome = &mut passing => outcome,
            () = daemon.leaving.cancelled() => {
                hub.interrupt();
                passing.await
            }
        }
    };
    _ = news.try_send(News::Ended(outcome));
    if asking.load(Ordering::Relaxed) {
        // Whatever the answer was, the next worker that asks may try again.
        *daemon.gate.lock().await = None;
    }
}

/// Returns the gate that tasks wait for.
async fn due(host: &Host) -> Result<Option<Phase>, Refused> {
    let due = state::seen(host, |ledger| {
        let selection = ledger.selection();
        let gate = selection.due_gate()?;
        let behind = ledger.tasks().filter(|task| task.status() != Status::Completed);
        let mut behind = behind.filter(|task| !task.failed_for_good());
        let waits = behind.any(|t| selection.phase_before(t) == Some(gate.name.as_str()));
        waits.then(|| gate.clone())
    });
    Ok(due.await?.flatten())
}
