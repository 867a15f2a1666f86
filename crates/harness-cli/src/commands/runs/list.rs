//! `harness runs list`

use clap::builder::styling::AnsiColor::{Green, Red, Yellow};
use harness_core::run::{Run, RunStatus};
use serde_json::json;

use super::{Record, dash, document, dollars, is_loop, state, what};
use crate::{
    failure::Result,
    local_time,
    paint::coloured,
    render::{Cell, Out, Table},
};

pub(super) fn print(out: &mut Out, record: &Record, all: bool, json: bool) -> Result<()> {
    if json {
        let shown = record.runs.iter().filter(|run| all || run.parent.is_none());
        let runs: Vec<_> = shown.map(|run| document::run(record, run)).collect();
        return out.document(&json!({ "runs": runs }));
    }
    let style = match out.is_terminal() {
        true => Style::ForPerson { id_chars: telling_chars(&record.runs) },
        false => Style::Whole,
    };
    let mut table = Table::default();
    if let (Style::ForPerson { .. }, Some(_)) = (&style, record.tops().next()) {
        table.row(["RUN", "BEGUN", "STATE", "RESTARTS", "TOKENS", "USD", "AGENT", "WORK"]);
    }
    for run in record.tops() {
        style.row(&mut table, "", record, run);
        if all {
            record.attempts(run).for_each(|attempt| style.row(&mut table, "  ", record, attempt));
        }
    }
    out.table(&table)
}

/// The form of the rows.
enum Style {
    /// For programs: whole ids, and times in UTC.
    Whole,
    /// For a terminal: the beginnings of the ids, which every command accepts, and local times.
    ForPerson {
        /// The number of characters of an id.
        id_chars: usize,
    },
}

impl Style {
    fn row(&self, table: &mut Table, indent: &str, record: &Record, run: &Run) {
        let restarts = format!("{}/{}", run.iteration_count, run.limits.max_iterations);
        let restarts = dash(is_loop(run).then_some(restarts));
        let (tokens, cost) = (run.usage.tokens(), dollars(&run.usage));
        let (id, begun, tokens, cost) = match self {
            Self::Whole => (
                run.id.as_str(),
                run.created_at.to_string(),
                format!("{tokens} tokens"),
                cost.map(|cost| format!("{cost} USD")),
            ),
            Self::ForPerson { id_chars } => (
                run.id.as_str().get(..*id_chars).unwrap_or(run.id.as_str()),
                local_time::date_and_clock(run.created_at),
                tokens.to_string(),
                cost,
            ),
        };
        table.row([
            Cell::from(format!("{indent}{id}")),
            begun.into(),
            standing(record, run),
            restarts.into(),
            tokens.into(),
            dash(cost).into(),
            run.agent.clone().into(),
            what(run).into(),
        ]);
    }
}

/// The least number of characters of an id that are shown.
const ID_CHARS: usize = 8;

/// Returns how many characters tell all ids apart. Ids of the same minute begin alike.
fn telling_chars(runs: &[Run]) -> usize {
    let mut ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    ids.sort_unstable();
    let shared =
        |pair: &[&str]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    let longest = ids.windows(2).map(shared).max().unwrap_or(0);
    (longest + 1).max(ID_CHARS)
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

#[cfg(test)]
mod tests {
    use harness_core::{RunId, Timestamp};

    use super::*;

    #[test]
    fn as_many_characters_are_shown_as_tell_the_ids_apart() {
        let run = |id: &str| Run::queued(RunId::parse(id).unwrap(), Timestamp::from_seconds(0));
        let first = run("0197f0a2-0000-7000-8000-00000000000a");
        assert_eq!(telling_chars(&[]), 8);
        assert_eq!(telling_chars(std::slice::from_ref(&first)), 8);
        let later = run("0197f0a3-0000-7000-8000-00000000000a");
        assert_eq!(telling_chars(&[first.clone(), later]), 8);
        let sibling = run("0197f0a2-0001-7000-8000-00000000000a");
        assert_eq!(telling_chars(&[sibling, first]), 13);
    }
}
