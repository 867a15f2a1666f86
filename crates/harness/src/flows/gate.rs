//! Performs the gate of a phase. What to do and in which order is the machine's.

use harness::{
    Ask, Branch, Result,
    check::Check,
    core::{
        ledger::Phase,
        machine::gate::{Effect, Ended, Gate, Outcome, Waiting},
    },
};

use super::Tools;

/// Where the ledger does not say how long a gate may take.
const GATE_SECONDS: u64 = 600;
/// What of its output is told.
const OUTPUT_BYTES: usize = 8 * 1024;
const YES: &str = "approve";

/// Tries the gate of `phase`.
pub async fn gate<A: Send + Sync>(
    cx: &Branch<A>,
    tools: &Tools,
    phase: Phase,
    waiting: Option<Waiting>,
) -> Result<Outcome> {
    cx.drive(&tools.ports, Gate::new(phase, waiting), |branch, effect| {
        let tools = tools.clone();
        async move {
            match effect {
                Effect::Check(gate) => {
                    let mut environment = vec![tools.root_variable()];
                    environment.extend(tools.run_variables());
                    let timeout_seconds = gate.timeout_seconds.unwrap_or(GATE_SECONDS);
                    let check = Check { command: gate.command, timeout_seconds, environment };
                    let shared = tools.clone();
                    let checked = tools.until_cancelled(&branch, move |cancel| {
                        let top = shared.workspace.top_level();
                        Ok(check.run_in(&*shared.shell, top, cancel)?)
                    });
                    let checked = checked.await?;
                    let output = tools.output(&checked.ran, OUTPUT_BYTES);
                    Ok(Ended::Checked { verdict: checked.verdict, output })
                }
                Effect::Approve { phase } => approve(&branch, phase).await,
            }
        }
    })
    .await
}

/// Somebody at another terminal answers: `harness questions`, `harness reply`.
async fn approve<A>(branch: &Branch<A>, phase: String) -> Result<Ended> {
    let Some(session) = branch.session() else { return Ok(Ended::Unanswered) };
    let question = format!("May the work go on after phase {phase}?");
    let ask = Ask::choices([YES, "reject"]).or_text();
    let answer = tokio::select! {
        answer = session.wait_for_user(question, ask) => answer,
        () = branch.cancelled().cancelled() => return Ok(Ended::Unanswered),
    };
    // Taken back: the run is aborted.
    let Ok(reply) = answer else { return Ok(Ended::Unanswered) };
    let approved = reply.choice.as_deref() == Some(YES) || reply.content.trim() == YES;
    Ok(Ended::Answered { approved, words: reply.content })
}
