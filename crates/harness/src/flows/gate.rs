//! Performs the gate of a phase. What to do and in which order is the machine's.

use std::time::Duration;

use harness::{
    Ask, Branch, Result,
    check::Check,
    core::{
        Timestamp,
        check::Verdict,
        ledger::{self, Phase},
        machine::gate::{Effect, Ended, Gate, Outcome, Waiting},
    },
};

use super::{Tools, tools::until_cancelled};

/// Where the ledger does not say how long a gate may take.
const GATE_SECONDS: u64 = 600;
/// What of its output is told.
const OUTPUT_BYTES: usize = 8 * 1024;
const YES: &str = "approve";

/// Tries the gate of `phase`. What has said nothing by `until` says nothing.
pub async fn gate<A: Send + Sync>(
    cx: &Branch<A>,
    tools: &Tools,
    phase: Phase,
    waiting: Option<Waiting>,
    until: Option<Timestamp>,
) -> Result<Outcome> {
    tools.workspace.disturbed();
    cx.drive(&tools.ports, Gate::new(phase, waiting), |branch, effect| {
        let tools = tools.clone();
        async move {
            match effect {
                Effect::Check(gate) => check(&branch, &tools, gate, until).await,
                Effect::Approve { phase } => approve(&branch, &tools, phase, until).await,
            }
        }
    })
    .await
}

async fn check<A>(
    branch: &Branch<A>,
    tools: &Tools,
    gate: ledger::Gate,
    until: Option<Timestamp>,
) -> Result<Ended> {
    let environment = tools.variables(None, tools.iteration().await?);
    let timeout_seconds = gate.timeout_seconds.unwrap_or(GATE_SECONDS);
    let timeout_seconds = timeout_seconds.min(tools.seconds_until(until));
    let check = Check { command: gate.command, timeout_seconds, environment };
    let shared = tools.clone();
    let checked = until_cancelled(branch, move |cancel| {
        Ok(check.run_in(&*shared.shell, shared.workspace.top_level(), cancel)?)
    });
    let checked = checked.await?;
    let output = tools.output(&checked.ran, OUTPUT_BYTES);
    let out_of_time = until.is_some_and(|until| until <= tools.ports.clock.now());
    let verdict = match checked.verdict {
        // By the run's time, not by its own.
        Verdict::TimedOut if out_of_time => Verdict::Cancelled,
        verdict => verdict,
    };
    Ok(Ended::Checked { verdict, output })
}

/// Somebody at another terminal answers: `harness questions`, `harness reply`.
async fn approve<A>(
    branch: &Branch<A>,
    tools: &Tools,
    phase: String,
    until: Option<Timestamp>,
) -> Result<Ended> {
    let Some(session) = branch.session() else { return Ok(Ended::Unanswered) };
    let question = format!("May the work go on after phase {phase}?");
    let ask = Ask::choices([YES, "reject"]).or_text();
    let out_of_time = async {
        match until {
            Some(_) => tokio::time::sleep(Duration::from_secs(tools.seconds_until(until))).await,
            None => std::future::pending().await,
        }
    };
    let answer = tokio::select! {
        answer = session.wait_for_user(question, ask) => answer,
        () = branch.cancelled().cancelled() => return Ok(Ended::Unanswered),
        () = out_of_time => return Ok(Ended::Unanswered),
    };
    // Taken back: the run is aborted.
    let Ok(reply) = answer else { return Ok(Ended::Unanswered) };
    let approved = reply.choice.as_deref() == Some(YES) || reply.content.trim() == YES;
    Ok(Ended::Answered { approved, words: reply.content, by: reply.by })
}
