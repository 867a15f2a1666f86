//! The messages about money: a missing budget, or one that cannot take effect.

use std::collections::HashMap;

use harness::{
    Agent as _,
    agent::CodingAgent,
    core::{Run, agent::Usage, run::RunLimits},
};

use super::{Args, agent::Agents};
use crate::{
    failure::{Failure, Result},
    paint::warn,
};

/// Warns once, at the start, about an agent that costs money without a limit, or whose cost is
/// unknown.
pub(super) fn say_what_it_may_cost(row: &Run, args: &Args, agents: &Agents) {
    let limits = &row.limits;
    let max_cost = args.max_cost.or(limits.max_cost_usd);
    let given = args.max_tokens.is_some() || args.max_duration.is_some();
    let stored = limits.max_tokens.is_some() || limits.max_duration_seconds.is_some();
    let limited = max_cost.is_some() || given || stored;
    if !limited && !matches!(agents.worker, CodingAgent::Shell(_)) {
        eprintln!(
            "no budget is set; limit the run with --max-cost, --max-tokens or --max-duration"
        );
    }
    if max_cost.is_some() {
        for (name, kind) in unpriced(agents) {
            match kind {
                "codex" => warn(&cannot_strike(&name, "reports no cost")),
                "acp" => warn(&cannot_strike(&name, "may report no cost")),
                // The others report their own cost, or are checked when they report tokens.
                _ => {}
            }
        }
    }
}

/// Returns the user's programs that may or may not report a cost, by their names in events, with
/// the warning for one that reports only tokens. Empty if money has no limit.
pub(super) fn to_be_seen(row: &Run, agents: &Agents) -> HashMap<String, String> {
    if row.limits.max_cost_usd.is_none() {
        return HashMap::new();
    }
    let commands = unpriced(agents).filter(|(_, kind)| *kind == "command");
    commands
        .map(|(name, _)| {
            let is_worker = agents.names.first() == Some(&name);
            let event_name = if is_worker { "worker".to_owned() } else { name.clone() };
            (event_name, cannot_strike(&name, "reported tokens but no cost"))
        })
        .collect()
}

/// Returns the usage of a run, and its limits.
pub(super) fn against(used: &Usage, limits: &RunLimits) -> String {
    let most = limits.max_tokens.map(|most| format!(" of {most}")).unwrap_or_default();
    let mut text = format!("{}{most} tokens", used.tokens());
    let cost = used.cost_usd.or(limits.max_cost_usd.map(|_| 0.0));
    if let Some(cost) = cost {
        let most = limits.max_cost_usd.map(|most| format!(" of ${most:.2}")).unwrap_or_default();
        text += &format!(", ${cost:.2}{most}");
    }
    text
}

/// Refuses a limit below the usage of the run, because it would stop the run at once.
pub(super) fn refuse_spent(row: &Run, args: &Args) -> Result<()> {
    let spent = row.usage.cost_usd.unwrap_or_default();
    let hint = "give more than that, or leave it out to keep the limit of the run";
    if args.max_cost.is_some_and(|most| most <= spent) {
        let error = format!("--max-cost: the run has used ${spent:.2} already");
        return Err(Failure::usage(error).hint(hint));
    }
    let tokens = row.usage.tokens();
    if args.max_tokens.is_some_and(|most| most <= tokens) {
        let error = format!("--max-tokens: the run has used {tokens} tokens already");
        return Err(Failure::usage(error).hint(hint));
    }
    Ok(())
}

/// Returns the flags that a resume needs after the budget was spent, because it would stop again
/// without them.
pub(super) fn larger(row: &Run) -> String {
    let mut flags = String::new();
    if let Some(most) = row.limits.max_cost_usd
        && row.usage.cost_usd.is_some_and(|cost| cost >= most)
    {
        flags += &format!(" --max-cost {:.2}", row.usage.cost_usd.unwrap_or_default() + most);
    }
    if let Some(most) = row.limits.max_tokens
        && row.usage.tokens() >= most
    {
        flags += &format!(" --max-tokens {}", row.usage.tokens().saturating_add(most));
    }
    flags
}

/// Returns the names and kinds of agents without a price.
fn unpriced(agents: &Agents) -> impl Iterator<Item = (String, &str)> {
    let all = [&agents.worker].into_iter().chain(agents.others.iter().map(|(_, agent)| agent));
    let named = agents.names.iter().zip(&agents.prices).zip(all);
    named.filter_map(|((name, price), agent)| match price {
        Some(_) => None,
        None => Some((name.clone(), agent.kind()?)),
    })
}

fn cannot_strike(name: &str, why: &str) -> String {
    let table = match name.strip_prefix("command: ") {
        Some(_) => "no table with a `price` in harness.toml".to_owned(),
        None => format!("no `price` in [agents.{name}]"),
    };
    format!("{name} {why} and has {table}: --max-cost has no effect; --max-tokens has")
}
