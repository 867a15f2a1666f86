//! The agents that could work here.

use std::path::Path;

use harness::agent::KnownAcpAgent;

use super::{
    claude,
    finding::Finding,
    login::{self, Login},
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
        findings.push(judge(env, config, directory, name, &program));
    }
    if findings.is_empty() {
        findings.push(Finding::warn(
            "agent",
            format!("{} not found on PATH", absent.join(" and ")),
            "install one, or name another agent in harness.toml",
        ));
    }
    // Whoever has none of these does not miss them.
    for known in KnownAcpAgent::all() {
        let program = find(env, known.name);
        findings.extend(program.map(|program| judge(env, config, directory, known.name, &program)));
    }
    findings.extend(config.and_then(|config| chosen(env, config)));
    findings
}

/// Whether it runs, and whether somebody is signed in, as far as the files and variables tell.
fn judge(
    env: &Environment,
    config: Option<&Config>,
    directory: &Path,
    name: &str,
    program: &Path,
) -> Finding {
    let version = match version(program, directory) {
        Ok(version) => version,
        Err(why) => {
            return Finding::warn(
                "agent",
                format!("{name}: {} does not work: {why}", program.display()),
                "install it anew, or take it off PATH",
            );
        }
    };
    if name == "claude" {
        return claude::look(env, config, &version);
    }
    match login::of(env, name) {
        Login::Unknown => Finding::ok("agent", format!("{name}: {version}")),
        Login::By(what) => Finding::ok("agent", format!("{name}: {version}, signed in by {what}")),
        Login::None { mend } => {
            Finding::warn("agent", format!("{name}: {version}, no sign of a login"), mend)
        }
    }
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
