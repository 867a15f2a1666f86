//! The agents that could work here.

use std::{collections::HashSet, path::Path};

use harness::agent::KnownAcpAgent;

use super::{
    claude, codex,
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
    if let Some(config) = config {
        findings.extend(configured(config).into_iter().map(|name| look_for(env, config, name)));
    }
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
    let login = match name {
        "codex" => codex::login(env, config),
        _ => login::of(env, name),
    };
    match login {
        Login::Unknown => Finding::ok("agent", format!("{name}: {version}")),
        Login::By(what) => Finding::ok("agent", format!("{name}: {version}, signed in by {what}")),
        Login::NotNeeded(provider) => {
            let what = format!("{name}: {version}, provider {provider} needs no login");
            Finding::ok("agent", what)
        }
        Login::None { mend } => {
            Finding::warn("agent", format!("{name}: {version}, no sign of a login"), mend)
        }
    }
}

/// Everybody whom the configuration would let work: the agent, who takes over from it, and who
/// writes summaries.
fn configured(config: &Config) -> Vec<&str> {
    let agent = config.agent.as_deref();
    let table = agent.and_then(|name| config.agents.get(name));
    let others = table.into_iter().flat_map(|table| &table.fallback).map(String::as_str);
    let summarizer = config.summarizer.agent.as_deref();
    let mut names: Vec<_> = agent.into_iter().chain(others).chain(summarizer).collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(*name));
    names
}

/// Whether its program is there. Its command may come with the repository, so it is only looked
/// for, not run.
fn look_for(env: &Environment, config: &Config, name: &str) -> Finding {
    let Some(program) = config.program(name) else {
        return Finding::ok("agent", format!("{name} is configured"));
    };
    let found = find(env, program).is_some();
    let looked_for = !program.contains('/') || program.starts_with('/');
    match found || !looked_for {
        true => Finding::ok("agent", format!("{name} is configured")),
        false => Finding::fail(
            "agent",
            format!("{name} is configured, but {program} is not found on PATH"),
            "install it, or choose another `agent`",
        ),
    }
}
