//! Which agents work.

use harness::{
    agent::{CodingAgent, CommandAgent, ShellAgent},
    process::Allowed,
};
use harness_core::run::Price;

use crate::{
    config::Config,
    failure::{Failure, Result},
};

/// The agents of a run.
pub(super) struct Agents {
    pub(super) worker: CodingAgent,
    /// Who take over while it is limited, by name.
    pub(super) others: Vec<(String, CodingAgent)>,
    pub(super) summarizer: Option<CodingAgent>,
    /// Of the worker and the others.
    pub(super) prices: Vec<Option<Price>>,
}

/// The agents that the flags or the configuration name. None is guessed: what runs in somebody's
/// repository all night is chosen.
pub(super) fn choose(config: &Config, command: Option<&str>) -> Result<Agents> {
    let summarizer = config.summarizer.agent.as_deref();
    let summarizer = summarizer.map(|name| named(config, name)).transpose()?;
    if let Some(command) = command {
        let worker = program(command, &[])?;
        return Ok(Agents { worker, others: Vec::new(), summarizer, prices: vec![None] });
    }
    let Some(name) = &config.agent else {
        return Err(Failure::config("no agent is chosen")
            .hint("--agent shell runs each task's instructions as a script")
            .hint("--agent-command 'PROGRAM ARGS' runs any program that takes a prompt")
            .hint("`agent = \"…\"` in harness.toml keeps the choice"));
    };
    let fallback = config.agents.get(name).map(|agent| agent.fallback.clone()).unwrap_or_default();
    let others = fallback.into_iter().filter(|other| other != name);
    let others: Result<Vec<_>> = others.map(|n| Ok((n.clone(), named(config, &n)?))).collect();
    let others = others?;
    let price = |name: &str| {
        let price = config.agents.get(name).and_then(|agent| agent.price);
        price.map(|price| Price { input: price.input, output: price.output })
    };
    let names = [name.as_str()].into_iter().chain(others.iter().map(|(name, _)| name.as_str()));
    let prices = names.map(price).collect();
    Ok(Agents { worker: named(config, name)?, others, summarizer, prices })
}

fn named(config: &Config, name: &str) -> Result<CodingAgent> {
    let configured = config.agents.get(name);
    match (name, configured.and_then(|a| a.command.as_deref())) {
        ("shell", None) => Ok(CodingAgent::Shell(ShellAgent)),
        (_, Some(command)) => {
            program(command, configured.map(|a| a.env.as_slice()).unwrap_or_default())
        }
        (name, None) => Err(Failure::config(format!("there is no adapter for agent {name} yet"))
            .hint("shell, or a table [agents.NAME] with a `command` in harness.toml")),
    }
}

fn program(command: &str, env: &[String]) -> Result<CodingAgent> {
    let allowed = Allowed::base().and(env.iter().map(String::as_str));
    let agent = CommandAgent::new(command, allowed).map_err(|e| Failure::config(e.to_string()))?;
    Ok(CodingAgent::Command(agent))
}
