//! Which agents work.

use std::time::Duration;

use harness::{
    agent::{ClaudeAgent, ClaudeSettings, CodingAgent, CommandAgent, ShellAgent},
    process::Allowed,
};
use harness_core::run::Price;

use crate::{
    commands::doctor::find_program,
    config::{Agent, AgentKind, Config},
    environment::Environment,
    failure::{Failure, Result},
};

/// Looked for, in this order, where nobody named an agent. What runs a task's text as a script is
/// never among them.
const LOOKED_FOR: [&str; 2] = ["claude", "codex"];

/// The agents of a run.
pub(super) struct Agents {
    pub(super) worker: CodingAgent,
    /// Who take over while it is limited, by name.
    pub(super) others: Vec<(String, CodingAgent)>,
    pub(super) summarizer: Option<CodingAgent>,
    /// Of the worker and the others.
    pub(super) prices: Vec<Option<Price>>,
}

/// The first agent that is installed, for whoever named none.
pub(super) fn installed(env: &Environment) -> Option<&'static str> {
    LOOKED_FOR.into_iter().find(|name| find_program(env, name).is_some())
}

/// The agents that the flags, the configuration or the `PATH` name.
pub(super) fn choose(config: &Config, command: Option<&str>) -> Result<Agents> {
    let summarizer = config.summarizer.agent.as_deref();
    let summarizer = summarizer.map(|name| named(config, name)).transpose()?;
    if let Some(command) = command {
        let worker = program(command, &[])?;
        return Ok(Agents { worker, others: Vec::new(), summarizer, prices: vec![None] });
    }
    let Some(name) = &config.agent else {
        return Err(Failure::config("no agent is chosen, and neither claude nor codex is on PATH")
            .hint("--agent claude needs Claude Code: npm install -g @anthropic-ai/claude-code")
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
    let unset = Agent::default();
    let configured = config.agents.get(name).unwrap_or(&unset);
    match (kind(name, configured), configured.command.as_deref()) {
        (Some(AgentKind::Shell), _) => Ok(CodingAgent::Shell(ShellAgent)),
        (Some(AgentKind::Claude), _) => claude(configured, config.context_threshold),
        (Some(AgentKind::Command), Some(command)) => program(command, &configured.env),
        _ => Err(Failure::config(format!("there is no adapter for agent {name} yet"))
            .hint("claude, shell, or a table [agents.NAME] with a `command` in harness.toml")),
    }
}

/// How an agent is spoken to: as its table says, or as its name does.
fn kind(name: &str, configured: &Agent) -> Option<AgentKind> {
    let by_name = match name {
        "claude" => Some(AgentKind::Claude),
        "shell" => Some(AgentKind::Shell),
        _ => configured.command.as_ref().map(|_| AgentKind::Command),
    };
    configured.kind.or(by_name)
}

fn claude(configured: &Agent, context_threshold: f64) -> Result<CodingAgent> {
    let agent = ClaudeAgent::new(ClaudeSettings {
        command: configured.command.clone(),
        args: configured.args.clone(),
        model: configured.model.clone(),
        env: configured.env.clone(),
        yolo: configured.yolo,
        context_window: configured.context_window,
        context_threshold: Some(context_threshold),
        stall: configured.stall_seconds.map(Duration::from_secs),
        is_priced: configured.price.is_some(),
    });
    agent.map(CodingAgent::Claude).map_err(|e| Failure::config(e.to_string()))
}

fn program(command: &str, env: &[String]) -> Result<CodingAgent> {
    let allowed = Allowed::base().and(env.iter().map(String::as_str));
    let agent = CommandAgent::new(command, allowed).map_err(|e| Failure::config(e.to_string()))?;
    Ok(CodingAgent::Command(agent))
}
