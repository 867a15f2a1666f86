//! The agents that could work here.

use std::path::Path;

use super::{
    claude,
    finding::Finding,
    programs::{find, version},
};
use crate::{config::Config, environment::Environment};

/// The agents that people most likely have.
const KNOWN: [&str; 2] = ["claude", "codex"];

pub(super) fn check(env: &Environment, directory: &Path, config: Option<&Config>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut absent = Vec::new();
    for name in KNOWN {
        let Some(program) = find(env, name) else {
            absent.push(name);
            continue;
        };
        findings.push(match version(&program, directory) {
            Ok(version) if name == "claude" => claude::look(env, config, &version),
            Ok(version) => Finding::ok("agent", format!("{name}: {version}")),
            Err(why) => Finding::warn(
                "agent",
                format!("{name}: {} does not work: {why}", program.display()),
                "install it anew, or take it off PATH",
            ),
        });
    }
    if findings.is_empty() {
        findings.push(Finding::warn(
            "agent",
            format!("{} not found on PATH", absent.join(" and ")),
            "install one, or name another agent in harness.toml",
        ));
    }
    findings.extend(config.and_then(|config| chosen(env, config)));
    findings
}

/// The agent that the configuration names. Its command may come with the repository, so it is only
/// looked for, not run.
fn chosen(env: &Environment, config: &Config) -> Option<Finding> {
    let name = config.agent.as_deref()?;
    let command = config.agents.get(name).and_then(|agent| agent.command.as_deref());
    let program = match command {
        Some(command) => command.split_whitespace().next().unwrap_or_default(),
        None if matches!(name, "shell" | "command") => {
            return Some(Finding::ok("agent", format!("{name} is configured")));
        }
        None => name,
    };
    let found = find(env, program).is_some();
    let looked_for = !program.contains('/') || program.starts_with('/');
    Some(match found || !looked_for {
        true => Finding::ok("agent", format!("{name} is configured")),
        false => Finding::fail(
            "agent",
            format!("{name} is configured, but {program} is not found on PATH"),
            "install it, or choose another `agent`",
        ),
    })
}
