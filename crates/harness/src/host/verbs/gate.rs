//! The gate of a phase, tried by a daemon when somebody asks for a task behind it.

use std::{sync::Arc, time::Duration};

use harness_core::{
    Command, CommitId,
    ledger::{self, Phase},
    machine::{
        Input, Machine as _, Next,
        gate::{Effect, Ended, Gate, Outcome},
    },
    task::Status,
    trust::Kind,
    variables::Variables,
};
use tokio::time::Instant;

use super::{
    super::{
        Daemon,
        server::{Duty, Host},
    },
    state,
};
use crate::{
    check::Check,
    conversation::{Ask, Session},
    hub::Hub,
    protocol::Refused,
    shell::{Cancel, SystemShell},
    store::{Writer, WriterError},
    workspace::glance,
};

/// Where the ledger does not say how long a gate may take.
const GATE_SECONDS: u64 = 600;
/// What of its output is told.
const OUTPUT_BYTES: usize = 8 * 1024;
/// A dozen workers that ask for a task are no reason to try a red gate a dozen times: once for each
/// commit, and after this long.
const AGAIN: Duration = Duration::from_secs(60);
const YES: &str = "approve";

/// The last try.
#[derive(Debug)]
pub(in crate::host) struct Tried {
    phase: String,
    head: Option<CommitId>,
    when: Instant,
    /// A person is asked, and has not answered.
    asking: bool,
}

/// Whether the gate that all that is left waits for has just passed, so that there may be a task.
pub(super) async fn open(host: &Host) -> Result<bool, Refused> {
    let Duty::Daemon(daemon) = &host.duty else { return Ok(false) };
    let Some(phase) = due(host).await? else { return Ok(false) };
    // Who comes second waits for what the first one finds out.
    let mut tried = daemon.gate.lock().await;
    let worktree = daemon.worktree.clone();
    let head = tokio::task::spawn_blocking(move || glance::head(&worktree)).await.unwrap_or(None);
    let same = |t: &Tried| {
        t.phase == phase.name && (t.asking || (t.head == head && t.when.elapsed() < AGAIN))
    };
    if tried.as_ref().is_some_and(same) {
        return Ok(due(host).await?.is_none());
    }
    if let Some(gate) = &phase.gate {
        (daemon.surroundings.may_run)(Kind::Gate, &gate.command)?;
    }
    *tried = Some(Tried { phase: phase.name.clone(), head, when: Instant::now(), asking: false });
    let mut gate = Gate::new(phase, None);
    match go(host, daemon, &mut gate, Input::Begin).await? {
        Stopped::Done(outcome) => Ok(outcome == Outcome::Passed),
        Stopped::Asks(phase) => {
            if let Some(tried) = tried.as_mut() {
                tried.asking = true;
            }
            let (writer, hub) = (Arc::clone(&host.writer), host.hub.clone());
            tokio::spawn(ask(writer, hub, Arc::clone(daemon), gate, phase));
            Ok(false)
        }
    }
}

/// The gate that somebody waits behind.
async fn due(host: &Host) -> Result<Option<Phase>, Refused> {
    let due = state::seen(host, |ledger| {
        let selection = ledger.selection();
        let gate = selection.due_gate()?;
        let behind = ledger.tasks().filter(|task| task.status != Status::Completed);
        let mut behind = behind.filter(|task| !task.failed_for_good());
        let waits = behind.any(|t| selection.phase_before(t) == Some(gate.name.as_str()));
        waits.then(|| gate.clone())
    });
    Ok(due.await?.flatten())
}

enum Stopped {
    Done(Outcome),
    Asks(String),
}

async fn go(
    host: &Host,
    daemon: &Daemon,
    gate: &mut Gate,
    mut input: Input<Ended>,
) -> Result<Stopped, Refused> {
    loop {
        input = match gate.step(daemon.clock.now(), input) {
            Next::Commit(command) => commit(&host.writer, *command).await?,
            Next::Start(Effect::Check(check)) => Input::Ended(run(host, daemon, check).await?),
            Next::Start(Effect::Approve { phase }) => return Ok(Stopped::Asks(phase)),
            Next::Done(outcome) => return Ok(Stopped::Done(outcome)),
            Next::Wait | Next::Cancel(_) => return Ok(Stopped::Done(Outcome::Interrupted)),
        };
    }
}

async fn commit(writer: &Writer, command: Command) -> Result<Input<Ended>, Refused> {
    match writer.apply_async(command).await {
        Ok(reply) => Ok(Input::Committed(reply)),
        Err(WriterError::Refused(refusal)) => Ok(Input::Refused(refusal)),
        Err(why) => Err(why.into()),
    }
}

async fn run(host: &Host, daemon: &Daemon, gate: ledger::Gate) -> Result<Ended, Refused> {
    let check = Check {
        command: gate.command,
        timeout_seconds: gate.timeout_seconds.unwrap_or(GATE_SECONDS),
        environment: Variables::of_root(host.root.display()).list(),
    };
    let (worktree, cancel) = (daemon.worktree.clone(), Cancel::new()?);
    let stop = cancel.clone();
    let working = tokio::task::spawn_blocking(move || {
        check.run_in(&SystemShell::default(), &worktree, &cancel)
    });
    tokio::pin!(working);
    let checked = tokio::select! {
        checked = &mut working => checked,
        () = daemon.leaving.cancelled() => {
            stop.cancel();
            working.await
        }
    };
    let checked = checked.map_err(|why| why.to_string())??;
    let from = checked.ran.tail.len().saturating_sub(OUTPUT_BYTES);
    let output = String::from_utf8_lossy(&checked.ran.tail[from..]).into_owned();
    Ok(Ended::Checked { verdict: checked.verdict, output })
}

/// Answered from any terminal, or taken back when the daemon ends.
async fn ask(writer: Arc<Writer>, hub: Hub, daemon: Arc<Daemon>, mut gate: Gate, phase: String) {
    let question = format!("May the work go on after phase {phase}?");
    let choices = Ask::choices([YES, "reject"]).or_text();
    let session = Session { hub };
    let answer = tokio::select! {
        answer = session.wait_for_user(question, choices) => answer.ok(),
        () = daemon.leaving.cancelled() => return,
    };
    let mut input = Input::Ended(match answer {
        Some(reply) => {
            let approved = reply.choice.as_deref() == Some(YES) || reply.content.trim() == YES;
            Ended::Answered { approved, words: reply.content, by: reply.by }
        }
        None => Ended::Unanswered,
    });
    while let Next::Commit(command) = gate.step(daemon.clock.now(), input) {
        match commit(&writer, *command).await {
            Ok(next) => input = next,
            Err(_) => break,
        }
    }
    *daemon.gate.lock().await = None;
}
