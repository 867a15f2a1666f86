//! Which agents work.

use std::time::Duration;

use harness::{
    agent::{
        AcpAgent, BadCommand, ClaudeAgent, ClaudeSettings, CodexAgent, CodingAgent, CommandAgent,
        KnownAcpAgent, ShellAgent, ToolServer,
    },
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
    pub(super) summarizer_price: Option<Price>,
    /// Of the worker and the others.
    pub(super) names: Vec<String>,
    pub(super) prices: Vec<Option<Price>>,
}

/// The first agent that is installed, if none was named.
pub(super) fn installed(env: &Environment) -> Option<&'static str> {
    LOOKED_FOR.into_iter().find(|name| find_program(env, name).is_some())
}

/// The agents that the flags, the configuration or the `PATH` name.
pub(super) fn choose(config: &Config, command: Option<&str>) -> Result<Agents> {
    let summarizer = config.summarizer.agent.as_deref();
    let summarizer_price = summarizer.and_then(|name| price(config, name));
    let summarizer = summarizer.map(|name| named(config, name)).transpose()?;
    if let Some(command) = command {
        let worker = program(command, &Agent::default())?;
        let names = vec![format!("command: {command}")];
        let (others, prices) = (Vec::new(), vec![None]);
        return Ok(Agents { worker, others, summarizer, summarizer_price, names, prices });
    }
    let Some(name) = &config.agent else {
        return Err(Failure::config(
            "no agent was chosen, and neither claude nor codex is on PATH",
        )
        .hint("--agent codex, gemini, opencode, qwen or copilot runs that program")
        .hint("--agent claude needs Claude Code: npm install -g @anthropic-ai/claude-code")
        .hint("--agent shell runs each task's instructions as a script")
        .hint("--agent-command 'PROGRAM ARGS' runs any program that takes a prompt")
        .hint("set `agent = \"…\"` in harness.toml to keep the choice"));
    };
    let fallback = config.agents.get(name).map(|agent| agent.fallback.clone()).unwrap_or_default();
    let others = fallback.into_iter().filter(|other| other != name);
    let others: Result<Vec<_>> = others.map(|n| Ok((n.clone(), named(config, &n)?))).collect();
    let others = others?;
    let names = [name].into_iter().chain(others.iter().map(|(name, _)| name));
    let names: Vec<String> = names.cloned().collect();
    let prices = names.iter().map(|name| price(config, name)).collect();
    let worker = named(config, name)?;
    Ok(Agents { worker, others, summarizer, summarizer_price, names, prices })
}

fn price(config: &Config, name: &str) -> Option<Price> {
    let price = config.agents.get(name)?.price?;
    Some(Price { input: price.input, output: price.output })
}

/// A built-in, refined by the table of its name, or an agent that only has a table.
fn named(config: &Config, name: &str) -> Result<CodingAgent> {
    let table = config.agents.get(name).cloned().unwrap_or_default();
    match config.kind(name) {
        Some(AgentKind::Shell) => Ok(CodingAgent::Shell(ShellAgent)),
        Some(AgentKind::Codex) => codex(&table),
        Some(AgentKind::Acp) => acp(name, &table),
        Some(AgentKind::Command) => {
            let Some(command) = &table.command else {
                return Err(Failure::config(format!("agent {name} has no `command`"))
                    .hint(format!("set it in [agents.{name}] of harness.toml"))
                    .hint("--agent-command 'PROGRAM ARGS' needs no table"));
            };
            program(command, &table)
        }
        Some(AgentKind::Claude) => claude(&table, config.context_threshold),
        None => Err(Failure::config(format!("unknown agent {name}"))
            .hint("use shell, or a table [agents.NAME] with a `command` in harness.toml")),
    }
}

/// This very program, wherever an agent would look for it by name.
fn tools(table: &Agent) -> Result<Option<ToolServer>> {
    if !table.mcp {
        return Ok(None);
    }
    Ok(Some(ToolServer::new(std::env::current_exe()?, ["mcp"])))
}

fn bad(error: BadCommand) -> Failure {
    Failure::config(error.to_string())
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
        tools: tools(configured)?,
    });
    agent.map(CodingAgent::Claude).map_err(|e| Failure::config(e.to_string()))
}

fn program(command: &str, table: &Agent) -> Result<CodingAgent> {
    let allowed = Allowed::base().and(table.env.clone());
    let agent = CommandAgent::new(command, allowed).map_err(bad)?.args(table.args.clone());
    Ok(CodingAgent::Command(agent))
}

fn codex(table: &Agent) -> Result<CodingAgent> {
    let command = table.command.as_deref().unwrap_or("codex");
    let allowed = Allowed::codex().and(table.env.clone());
    let mut agent = CodexAgent::new(command, allowed)
        .map_err(bad)?
        .args(table.args.clone())
        .tools(tools(table)?);
    if let Some(model) = &table.model {
        agent = agent.model(model);
    }
    if table.yolo {
        agent = agent.without_sandbox();
    }
    Ok(CodingAgent::Codex(agent))
}

fn acp(name: &str, table: &Agent) -> Result<CodingAgent> {
    let known = KnownAcpAgent::named(name);
    let Some(command) = table.command.as_deref().or(known.map(|known| known.command)) else {
        return Err(Failure::config(format!("agent {name} has no `command`"))
            .hint("a program that speaks the Agent Client Protocol, such as 'gemini --acp'"));
    };
    let allowed = known.map_or_else(Allowed::base, KnownAcpAgent::allowed);
    let allowed = allowed.and(table.env.clone());
    let mut agent =
        AcpAgent::new(command, allowed).map_err(bad)?.args(table.args.clone()).tools(tools(table)?);
    if let Some(model) = &table.model {
        agent = agent.model(model);
    }
    if let Some(tokens) = table.context_window {
        agent = agent.context_window(tokens);
    }
    if table.price.is_some() {
        agent = agent.priced();
    }
    if table.yolo {
        agent = agent.allowing_anything();
    }
    Ok(CodingAgent::Acp(agent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_name_a_table_or_both_make_an_agent() {
        for (name, text, kind) in [
            ("codex", "", "codex"),
            ("codex", "[agents.codex]\nmodel = 'm'\nyolo = true\nenv = ['A=1']", "codex"),
            ("mine", "[agents.mine]\nkind = 'codex'\ncommand = 'npx codex'", "codex"),
            ("gemini", "", "acp"),
            ("qwen", "[agents.qwen]\nargs = ['--debug']", "acp"),
            ("mine", "[agents.mine]\nkind = 'acp'\ncommand = 'my-agent --acp'", "acp"),
            ("mine", "[agents.mine]\ncommand = 'my-agent'\nargs = [\"it's\"]", "command"),
            ("gemini", "[agents.gemini]\nkind = 'command'\ncommand = 'gemini -p'", "command"),
            ("shell", "", "shell"),
        ] {
            use harness::Agent as _;
            let found = named(&config(text), name).map(|agent| agent.kind().map(str::to_owned));
            assert_eq!(found.unwrap().as_deref(), Some(kind), "{name} {text}");
        }
        for (name, text) in [
            ("mine", "[agents.mine]\nkind = 'acp'"),
            ("mine", "[agents.mine]\nkind = 'codex'\ncommand = \"codex 'x\""),
            ("command", ""),
        ] {
            assert!(named(&config(text), name).is_err(), "{name} {text}");
        }
    }
}
