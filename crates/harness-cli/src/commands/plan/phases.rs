//! `harness plan phases`

use harness_core::{
    Ledger,
    ledger::{GATE_TIMEOUT_SECONDS, Phase},
    task::Status,
};
use serde_json::{Value, json};

use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    render::{Cell, Table},
    task_line::Span,
};

/// List the phases in order, with their gates
///
/// Shows how many tasks of each phase are completed, and what has to happen at its end.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness plan phases
  harness plan phases --json | jq '.phases[].name'")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let ledger = invocation.look(&root)?;
    if args.json {
        invocation.out.document(&json!({ "phases": document(&ledger) }))?;
        return Ok(ExitCode::Done);
    }
    if ledger.head().phases.is_empty() {
        eprintln!("The ledger has no phases; `harness plan phase NAME` adds one");
        return Ok(ExitCode::Done);
    }
    let mut table = Table::default();
    for (n, phase) in ledger.head().phases.iter().enumerate() {
        let (completed, total) = counts(&ledger, phase);
        table.row([
            Cell::from(format!("{}.", n + 1)),
            phase.name.clone().into(),
            format!("{completed} of {total} completed").into(),
            end(phase).into(),
        ]);
    }
    invocation.out.table(&table)?;
    Ok(ExitCode::Done)
}

/// Returns the phases for programs.
pub(super) fn document(ledger: &Ledger) -> Vec<Value> {
    let phase = |phase: &Phase| {
        let gate = phase.gate.as_ref().map(|gate| {
            let timeout_seconds = gate.timeout_seconds.unwrap_or(GATE_TIMEOUT_SECONDS);
            json!({ "command": gate.command, "timeout_seconds": timeout_seconds })
        });
        let (completed, total) = counts(ledger, phase);
        json!({
            "name": phase.name,
            "gate": gate,
            "approve": phase.approve,
            "passed_at": phase.passed_at,
            "tasks": total,
            "completed": completed,
        })
    };
    ledger.head().phases.iter().map(phase).collect()
}

fn counts(ledger: &Ledger, phase: &Phase) -> (usize, usize) {
    let tasks = ledger.tasks().filter(|task| task.phase.as_ref() == Some(&phase.name));
    tasks.fold((0, 0), |(completed, total), task| {
        (completed + usize::from(task.status() == Status::Completed), total + 1)
    })
}

/// Describes the end of a phase.
fn end(phase: &Phase) -> String {
    let gate = phase.gate.as_ref().map(|gate| {
        let limit = Span(gate.timeout_seconds.unwrap_or(GATE_TIMEOUT_SECONDS));
        format!("gate: {} (limit {limit})", gate.command)
    });
    let approval = phase.approve.then(|| "approval of a person".to_owned());
    let passed = phase.passed_at.map(|time| format!("passed {time}"));
    let parts: Vec<String> = gate.into_iter().chain(approval).chain(passed).collect();
    if parts.is_empty() { "no gate".to_owned() } else { parts.join("; ") }
}
