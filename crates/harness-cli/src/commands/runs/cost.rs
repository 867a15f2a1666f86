//! `harness runs cost`
//!
//! The sum of a run over the ledger includes its attempts. So totals are those of runs that are
//! part of no other, and agents and days get the rest of a run without its attempts.

use std::collections::BTreeMap;

use harness_core::{Timestamp, agent::Usage, run::Run};
use serde_json::json;

use super::{Record, dash, document, dollars, what};
use crate::{
    failure::Result,
    render::{Cell, Out, Table},
};

/// A smaller value is a rounding error of sums.
const NOTHING_USD: f64 = 1e-9;

pub(super) fn print(out: &mut Out, record: &Record, name: Option<&str>, json: bool) -> Result<()> {
    let chosen: Vec<&Run> = match name {
        Some(name) => vec![record.find(name)?],
        None => record.tops().collect(),
    };
    let sums = Sums::of(record, &chosen)?;
    if json {
        let rows = |name: &str, sums: &BTreeMap<String, Usage>| {
            let row = |(of, usage): (&String, &Usage)| document::spent(name, of.clone(), usage);
            sums.iter().map(row).collect::<Vec<_>>()
        };
        let runs: Vec<_> =
            chosen.iter().map(|r| document::spent("run_id", r.id.as_str(), &r.usage)).collect();
        return out.document(&json!({
            "total": document::sum(&sums.total),
            "runs": runs,
            "tasks": rows("task_id", &sums.tasks),
            "agents": rows("agent", &sums.agents),
            "days": rows("day", &sums.days),
        }));
    }
    if chosen.is_empty() {
        return Ok(());
    }
    let mut table = Table::default();
    table.row(["", "USD", "tokens in", "out", ""]);
    row(&mut table, "Total", &sums.total, "");
    head(&mut table, "Runs");
    for run in &chosen {
        row(&mut table, &format!("  {}", run.id), &run.usage, &what(run));
    }
    for (name, sums) in [("Tasks", &sums.tasks), ("Agents", &sums.agents), ("Days", &sums.days)] {
        if !sums.is_empty() {
            head(&mut table, name);
        }
        for (of, usage) in sums {
            row(&mut table, &format!("  {of}"), usage, "");
        }
    }
    out.table(&table)
}

fn head(table: &mut Table, name: &str) {
    let bold = clap::builder::styling::Style::new().bold();
    table.row([Cell::styled(bold, name)]);
}

fn row(table: &mut Table, name: &str, usage: &Usage, what: &str) {
    let (input, output) = (usage.input_tokens.to_string(), usage.output_tokens.to_string());
    table.row([name, &dash(dollars(usage)), &input, &output, what]);
}

#[derive(Default)]
struct Sums {
    total: Usage,
    tasks: BTreeMap<String, Usage>,
    agents: BTreeMap<String, Usage>,
    days: BTreeMap<String, Usage>,
}

impl Sums {
    fn of(record: &Record, chosen: &[&Run]) -> Result<Self> {
        let mut sums = Self::default();
        for run in chosen {
            sums.total += run.usage;
            let mut own = run.usage;
            for attempt in record.attempts(run) {
                own = less(own, attempt.usage);
                sums.take_in(record, attempt, attempt.usage)?;
            }
            sums.take_in(record, run, own)?;
        }
        Ok(sums)
    }

    /// Adds a run; `own` is its usage without its parts.
    fn take_in(&mut self, record: &Record, run: &Run, own: Usage) -> Result<()> {
        if let Some(task) = &run.task {
            add(&mut self.tasks, task.to_string(), own);
        }
        let (mut rest, mut of_agent) = (own, own);
        for iteration in record.iterations(run)? {
            rest = less(rest, iteration.usage);
            add(&mut self.days, day(iteration.started_at), iteration.usage);
            // A run that was resumed with another agent has more than one.
            for (agent, usage) in iteration.agents {
                of_agent = less(of_agent, usage);
                add(&mut self.agents, agent, usage);
            }
        }
        add(&mut self.agents, run.agent.clone(), of_agent);
        add(&mut self.days, day(run.created_at), rest);
        Ok(())
    }
}

/// Adds a usage. An empty one is not listed.
fn add(sums: &mut BTreeMap<String, Usage>, name: String, usage: Usage) {
    if usage.tokens() > 0 || usage.cost_usd.is_some() {
        *sums.entry(name).or_default() += usage;
    }
}

fn less(all: Usage, part: Usage) -> Usage {
    let cost = all.cost_usd.map(|cost| cost - part.cost_usd.unwrap_or_default());
    Usage {
        input_tokens: all.input_tokens.saturating_sub(part.input_tokens),
        output_tokens: all.output_tokens.saturating_sub(part.output_tokens),
        cost_usd: cost.filter(|cost| *cost > NOTHING_USD),
    }
}

/// Returns the day in UTC, as for all times here.
fn day(time: Timestamp) -> String {
    time.to_string().chars().take(10).collect()
}
