//! Which agent works.

use harness::{
    agent::{CodingAgent, CommandAgent, ShellAgent},
    process::Allowed,
};

use crate::{
    config::Config,
    failure::{Failure, Result},
};

/// The agent that the flags or the configuration name. None is guessed: what runs in somebody's
/// repository all night is chosen.
pub(super) fn choose(config: &Config, command: Option<&str>) -> Result<CodingAgent> {
    if let Some(command) = command {
        return program(command, &[]);
    }
    let Some(name) = &config.agent else {
        return Err(Failure::config("no agent is chosen")
            .hint("--agent shell runs each task's instructions as a script")
            .hint("--agent-command 'PROGRAM ARGS' runs any program that takes a prompt")
            .hint("`agent = \"…\"` in harness.toml keeps the choice"));
    };
    let configured = config.agents.get(name);
    match (name.as_str(), configured.and_then(|a| a.command.as_deref())) {
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
