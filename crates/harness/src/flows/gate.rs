//! Performs the gate of a phase. The machine decides which steps are taken, and in which order.

use std::{path::PathBuf, sync::Arc, time::Duration};

use harness::{
    Ask, Branch, Event, Ports, Result, Session,
    blocking::blocking,
    check::Check,
    core::{
        Timestamp,
        check::Verdict,
        ledger::{self, GATE_TIMEOUT_SECONDS, Phase},
        machine::gate::{Effect, Ended, Gate, GateEnd, Waiting},
    },
    process::Redactor,
    shell::Shell,
};

use super::{Bench, ClosedGate, tools::until_cancelled};

/// The amount of its output that is reported.
const OUTPUT_BYTES: usize = 8 * 1024;
/// The answer that lets a phase pass.
pub const APPROVE: &str = "approve";

/// Tries the gate of `phase` for a run. A gate that has not ended by `until` counts as not tried.
pub async fn gate<A: Send + Sync>(
    cx: &Branch<A>,
    bench: &Bench,
    phase: Phase,
    waiting: Option<Waiting>,
    until: Option<Timestamp>,
) -> Result<GateEnd> {
    bench.workspace.disturbed();
    let tools = &bench.tools;
    let gatehouse = Gatehouse {
        ports: tools.ports.clone(),
        shell: Arc::clone(&tools.shell),
        root: tools.root.clone(),
        directory: bench.workspace.top_level().to_owned(),
        environment: tools.variables(None, tools.iteration().await?).await,
        redactor: tools.redactor.clone(),
        session: cx.session(),
        asking: Arc::new(|| ()),
        until,
    };
    gatehouse.pass(cx, phase, waiting).await
}

/// The tools of a gate, in a run and in a daemon.
#[derive(Clone)]
pub struct Gatehouse {
    /// The ports through which decisions become durable, and the clock.
    pub ports: Ports,
    /// Runs the check.
    pub shell: Arc<dyn Shell>,
    /// The state root, where the output of a closed gate is kept.
    pub root: PathBuf,
    /// The directory in which the check runs.
    pub directory: PathBuf,
    /// Variables that are added to the inherited environment of the check.
    pub environment: Vec<(String, String)>,
    /// Removes secrets from text that people see.
    pub redactor: Redactor,
    /// The session through which people are asked; `None` if nobody can be asked.
    pub session: Option<Session>,
    /// Called when the check is over and a person is asked.
    pub asking: Arc<dyn Fn() + Send + Sync>,
    /// The end of the time. A gate that has not ended by then counts as not tried.
    pub until: Option<Timestamp>,
}

impl Gatehouse {
    /// Tries the gate of `phase`.
    pub async fn pass<A: Send + Sync>(
        &self,
        cx: &Branch<A>,
        phase: Phase,
        waiting: Option<Waiting>,
    ) -> Result<GateEnd> {
        let name = phase.name.clone();
        let begun = tokio::time::Instant::now();
        let end = cx.drive(&self.ports, Gate::new(phase, waiting), |branch, effect| {
            let gatehouse = self.clone();
            async move {
                match effect {
                    Effect::Check(gate) => gatehouse.check(&branch, gate).await,
                    Effect::Approve { phase } => gatehouse.approve(&branch, phase).await,
                }
            }
        });
        let end = end.await?;
        let outcome = match &end {
            GateEnd::Passed => "passed",
            GateEnd::Closed { .. } => "closed",
            GateEnd::Interrupted => "interrupted",
        };
        cx.emit(Event::RunGate {
            phase: name.clone(),
            outcome: outcome.to_owned(),
            duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        if let GateEnd::Closed { why, output } = &end {
            self.keep(name, why, output).await;
        }
        Ok(end)
    }

    /// Stores the reason why the gate is closed. The log already states that it is closed, so a
    /// failure to write loses only the output.
    async fn keep(&self, phase: String, why: &str, output: &str) {
        let output = self.redactor.text(output).into_owned();
        let closed = ClosedGate::new(phase, self.ports.clock.now(), why.to_owned(), output);
        let root = self.root.clone();
        _ = blocking(move || closed.keep(&root)).await;
    }

    /// Returns the remaining time, at least one second. Without an end it is practically unlimited.
    fn seconds_left(&self) -> u64 {
        self.until.map_or(u64::MAX, |end| end.since(self.ports.clock.now()).max(1))
    }

    async fn check<A>(self, branch: &Branch<A>, gate: ledger::Gate) -> Result<Ended> {
        let timeout_seconds =
            gate.timeout_seconds.unwrap_or(GATE_TIMEOUT_SECONDS).min(self.seconds_left());
        let environment = self.environment.clone();
        let check = Check { command: gate.command, timeout_seconds, environment };
        let (shell, directory) = (Arc::clone(&self.shell), self.directory.clone());
        let checked =
            until_cancelled(branch, move |cancel| Ok(check.run_in(&*shell, &directory, cancel)?));
        let checked = checked.await?;
        // The whole text is redacted before it is cut, because half of a secret is not recognised.
        let shown = self.redactor.bytes(&checked.ran.tail);
        let from = shown.len().saturating_sub(OUTPUT_BYTES);
        let output = String::from_utf8_lossy(&shown[from..]).into_owned();
        let out_of_time = self.until.is_some_and(|until| until <= self.ports.clock.now());
        let verdict = match checked.verdict {
            // The time of the run ended, not that of the gate.
            Verdict::TimedOut if out_of_time => Verdict::Cancelled,
            verdict => verdict,
        };
        Ok(Ended::Checked { verdict, output })
    }

    /// Asks a person, who can answer from any terminal: `harness questions`, `harness reply`.
    async fn approve<A>(self, branch: &Branch<A>, phase: String) -> Result<Ended> {
        let Some(session) = &self.session else { return Ok(Ended::Unanswered) };
        (self.asking)();
        let question = format!("May the work go on after phase {phase}?");
        let ask = Ask::choices([APPROVE, "reject"]).about_phase(&phase);
        let out_of_time = async {
            match self.until {
                Some(_) => tokio::time::sleep(Duration::from_secs(self.seconds_left())).await,
                None => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            answer = session.wait_for_user(question, ask) => answer,
            () = branch.cancelled().cancelled() => return Ok(Ended::Unanswered),
            () = out_of_time => return Ok(Ended::Unanswered),
        };
        // The question was withdrawn, because the run is aborted.
        let Ok(reply) = answer else { return Ok(Ended::Unanswered) };
        let approved = reply.choice.as_deref() == Some(APPROVE) || reply.content.trim() == APPROVE;
        Ok(Ended::Answered { approved, words: reply.content, by: reply.by })
    }
}
