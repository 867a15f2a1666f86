//! `harness runs list`

use clap::builder::styling::AnsiColor::{Green, Red, Yellow};
use harness_core::run::{Run, RunStatus};
use serde_json::json;

use super::{Record, dash, document, dollars, is_loop, state, what};
use crate::{
    failure::Result,
    paint::coloured,
    render::{Cell, Out, Table},
};

pub(super) fn print(out: &mut Out, record: &Record, all: bool, json: bool) -> Result<()> {
    if json {
        let shown = record.runs.iter().filter(|run| all || run.parent.is_none());
        let runs: Vec<_> = shown.map(|run| document::run(record, run)).collect();
        return out.document(&json!({ "runs": runs }));
    }
    let mut table = Table::default();
    for run in record.tops() {
        row(&mut table, "", record, run);
        if all {
            record.attempts(run).for_each(|attempt| row(&mut table, "  ", record, attempt));
        }
    }
    out.table(&table)
}

fn row(table: &mut Table, indent: &str, record: &Record, run: &Run) {
    let restarts = format!("{}/{}", run.iteration_count, run.limits.max_iterations);
    let restarts = is_loop(run).then_some(restarts);
    table.row([
        Cell::from(format!("{indent}{}", run.id)),
        run.created_at.to_string().into(),
        standing(record, run),
        dash(restarts).into(),
        format!("{} tokens", run.usage.tokens()).into(),
        dash(dollars(&run.usage).map(|cost| format!("{cost} USD"))).into(),
        run.agent.clone().into(),
        what(run).into(),
    ]);
}

/// Returns the state of a run in its colour.
pub(super) fn standing(record: &Record, run: &Run) -> Cell {
    let failed = record.outcomes.words(run, record.attempts(run)).is_some();
    let color = match run.status {
        _ if failed => Red,
        RunStatus::Succeeded => Green,
        RunStatus::Failed | RunStatus::Cancelled => Red,
        RunStatus::Queued
        | RunStatus::Running
        | RunStatus::WaitingForHuman
        | RunStatus::Stopped => Yellow,
    };
    Cell::styled(coloured(color), state(record, run))
}
