//! `harness budget`

use harness::{
    clock::{Clock as _, SystemClock},
    protocol::{BudgetRequest, BudgetView},
};
use harness_core::{RunId, Timestamp, role::Operation};

use super::{
    run::row::{amount, seconds, tokens},
    runs::run_of_name,
};
use crate::{
    exit::ExitCode, failure::Result, invocation::Invocation, root::StateRoot, task_line::Span,
};

/// Show or change what a run may cost
///
/// Without limits it shows what the run has used of each. A new limit holds at once for all workers
/// of a run in progress, and is stored with the run. A run that a spent budget stopped goes on with
/// `harness run --resume` after its limit was raised here.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness budget
  harness budget --max-cost 20
  harness budget --run-id 0197f0a2 --max-duration 8h")]
pub(crate) struct Args {
    /// The run, by its id or the beginning of it [default: the one in progress, or the last one]
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// Maximum cost in US dollars
    #[arg(long, value_name = "USD", value_parser = amount)]
    max_cost: Option<f64>,
    /// Maximum number of input and output tokens, cached ones included
    #[arg(long, value_name = "N", value_parser = tokens)]
    max_tokens: Option<u64>,
    /// Time limit from the start or the last resume of the run, waits included: 90s, 30m, 8h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    max_duration: Option<u64>,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let run_id = args.run_id.as_deref().map(|name| named(&root, name)).transpose()?;
    let Args { max_cost, max_tokens, max_duration, json, .. } = args;
    let request = BudgetRequest { run_id, max_cost, max_tokens, max_duration };
    if !request.budget().is_empty() {
        invocation.permit(&root, Operation::Budget)?;
    }
    let budget = invocation.with_client(&root, |client| client.budget(request))?;
    if json {
        invocation.out.document(&serde_json::to_value(&budget)?)?;
        return Ok(ExitCode::Done);
    }
    for line in lines(&budget, SystemClock.now()) {
        invocation.out.line(line)?;
    }
    Ok(ExitCode::Done)
}

fn named(root: &StateRoot, name: &str) -> Result<RunId> {
    let store = root.look_at_runs()?;
    let runs = store.map(|store| store.runs()).transpose()?.unwrap_or_default();
    Ok(run_of_name(&runs, name)?.id.clone())
}

fn lines(budget: &BudgetView, now: Timestamp) -> Vec<String> {
    let used = |used: String, most: Option<String>| match most {
        Some(most) => format!("{used} of {most}"),
        None => format!("{used}, no limit"),
    };
    let cost = budget.cost_usd.map_or_else(|| "not reported".to_owned(), |c| format!("${c:.2}"));
    let time = match (budget.max_duration_seconds, budget.deadline) {
        (Some(most), Some(end)) => {
            let left = Span(end.since(now));
            format!("{left} left of {}", Span(most))
        }
        (Some(most), None) => format!("{} after a resume", Span(most)),
        (None, _) => "no limit".to_owned(),
    };
    vec![
        format!("run {}: {}", budget.run_id, budget.status),
        format!("cost    {}", used(cost, budget.max_cost_usd.map(|most| format!("${most:.2}")))),
        format!(
            "tokens  {}",
            used(budget.tokens.to_string(), budget.max_tokens.map(|most| most.to_string()))
        ),
        format!("time    {time}"),
    ]
}
