//! The choice of the agents.

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

/// The agents that are searched, in this order, if none is named. An agent that runs a task's text
/// as a script is never among them.
const LOOKED_FOR: [&str; 2] = ["claude", "codex"];

/// The agents of a run.
pub(super) struct Agents {
    pub(super) worker: CodingAgent,
    /// The agents that take over while the worker is rate limited, by name.
    pub(super) others: Vec<(String, CodingAgent)>,
    pub(super) summarizer: Option<CodingAgent>,
    pub(super) summarizer_price: Option<Price>,
    /// The names of the worker and the others.
    pub(super) names: Vec<String>,
    pub(super) prices: Vec<Option<Price>>,
}

/// Returns the first installed agent, for a run without a named one.
pub(super) fn installed(env: &Environment) -> Option<&'static str> {
    LOOKED_FOR.into_iter().find(|name| find_program(env, name).is_some())
}

/// Returns the agents that the flags, the configuration or the `PATH` name. `more` names variables
/// that the program of `command` gets.
pub(super) fn choose(config: &Config, command: Option<&str>, more: &[String]) -> Result<Agents> {
    let summarizer = config.summarizer.agent.as_deref();
    let summarizer_price = summarizer.and_then(|name| price(config, name));
    let summarizer = summarizer.map(|name| named(config, name)).transpose()?;
    if let Some(command) = command {
        let table = by_command(config, more);
        let worker = program(command, &table, config.context_threshold)?;
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

/// Returns the settings of `[agents.command]` and `--agent-env` for programs that `--agent-command`
/// names.
fn by_command(config: &Config, more: &[String]) -> Agent {
    let table = config.agents.get("command").cloned().unwrap_or_default();
    let (mut env, context_window) = (table.env, table.context_window);
    env.extend(more.iter().cloned());
    Agent { env, context_window, ..Agent::default() }
}

/// Names the keys of models that are set here and that the program does not receive.
pub(super) fn say_what_is_kept_back(env: &Environment, config: &Config, more: &[String]) {
    let allowed = Allowed::base().and(by_command(config, more).env);
    let is_key = |name: &str| name.ends_with("_API_KEY") || name.ends_with("_AUTH_TOKEN");
    let mut names: Vec<String> =
        env.names().filter(|name| is_key(name) && !allowed.allows(name)).collect();
    names.sort();
    if !names.is_empty() {
        let all = names.join(",");
        eprintln!("the agent does not get {}: --agent-env {all} passes it", names.join(", "));
    }
}

fn price(config: &Config, name: &str) -> Option<Price> {
    let price = config.agents.get(name)?.price?;
    Some(Price { input: price.input, output: price.output })
}

/// Refuses shell syntax, because the program would receive it as plain words.
pub(super) fn refuse_shell_syntax(command: &str) -> Result<()> {
    let Some(found) = shell_syntax(command) else { return Ok(()) };
    let what = format!("--agent-command is not run by a shell, and {found:?} is shell syntax");
    Err(Failure::usage(what)
        .hint("put the line into a script and name that, or write sh -c '…' around it")
        .hint("quotes around a word keep such characters as they are"))
}

/// Returns the first operator outside of quotes.
fn shell_syntax(command: &str) -> Option<&'static str> {
    const OPERATORS: [&str; 7] = ["$(", "`", ";", "|", "&", "<", ">"];
    let mut quote = None;
    let mut from = 0;
    while let Some(next) = command[from..].chars().next() {
        let rest = &command[from..];
        from += next.len_utf8();
        match (quote, next) {
            (Some(open), _) if next == open => quote = None,
            (None, '\'' | '"') => quote = Some(next),
            (None | Some('"'), '\\') => {
                from += command[from..].chars().next().map_or(0, char::len_utf8);
            }
            (None, _) => {
                let found = OPERATORS.into_iter().find(|operator| rest.starts_with(operator));
                if found.is_some() {
                    return found;
                }
            }
            (Some(_), _) => {}
        }
    }
    None
}

/// Returns a built-in agent, refined by the table of its name, or an agent that only has a table.
fn named(config: &Config, name: &str) -> Result<CodingAgent> {
    let table = config.agents.get(name).cloned().unwrap_or_default();
    match config.kind(name) {
        Some(AgentKind::Shell) => Ok(CodingAgent::Shell(ShellAgent)),
        Some(AgentKind::Codex) => codex(&table),
        Some(AgentKind::Acp) => acp(name, &table, config.context_threshold),
        Some(AgentKind::Command) => {
            let Some(command) = &table.command else {
                return Err(Failure::config(format!("agent {name} has no `command`"))
                    .hint(format!("set it in [agents.{name}] of harness.toml"))
                    .hint("--agent-command 'PROGRAM ARGS' needs no table"));
            };
            program(command, &table, config.context_threshold)
        }
        Some(AgentKind::Claude) => claude(&table, config.context_threshold),
        None => Err(Failure::config(format!("unknown agent {name}"))
            .hint("use shell, or a table [agents.NAME] with a `command` in harness.toml")),
    }
}

/// Returns the tools of this very program, whatever an agent would find by name.
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

fn program(command: &str, table: &Agent, context_threshold: f64) -> Result<CodingAgent> {
    let allowed = Allowed::base().and(table.env.clone());
    let mut agent = CommandAgent::new(command, allowed)
        .map_err(bad)?
        .args(table.args.clone())
        .context_threshold(context_threshold);
    if let Some(tokens) = table.context_window {
        agent = agent.context_window(tokens);
    }
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

fn acp(name: &str, table: &Agent, context_threshold: f64) -> Result<CodingAgent> {
    let known = KnownAcpAgent::named(name);
    let Some(command) = table.command.as_deref().or(known.map(|known| known.command)) else {
        return Err(Failure::config(format!("agent {name} has no `command`"))
            .hint("a program that speaks the Agent Client Protocol, such as 'gemini --acp'"));
    };
    let allowed = known.map_or_else(Allowed::base, KnownAcpAgent::allowed);
    let allowed = allowed.and(table.env.clone());
    let mut agent = AcpAgent::new(command, allowed)
        .map_err(bad)?
        .args(table.args.clone())
        .context_threshold(context_threshold)
        .tools(tools(table)?);
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
    fn only_operators_outside_of_quotes_are_shell_syntax() {
        for (command, found) in [
            ("my-agent --print", None),
            ("my-agent 'a; b' \"c > d\" e\\;f {prompt_file}", None),
            ("sh -c 'echo x > f; echo done'", None),
            ("echo x > f; echo done", Some(">")),
            ("a; b", Some(";")),
            ("a | b", Some("|")),
            ("a && b", Some("&")),
            ("a $(date)", Some("$(")),
            ("a `date`", Some("`")),
            ("a < f", Some("<")),
            ("a \"it's\" | b", Some("|")),
        ] {
            assert_eq!(shell_syntax(command), found, "{command}");
        }
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
