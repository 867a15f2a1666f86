//! The agents that could work here.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use harness::agent::KnownAcpAgent;

use super::{
    claude, codex,
    finding::Finding,
    login::{self, Login},
    programs::{find, version},
};
use crate::{
    config::{Agent, AgentKind, Config},
    environment::Environment,
};

/// The agents that people most likely have.
const KNOWN: [&str; 2] = ["claude", "codex"];

/// The place in which agents are searched, and the settings.
pub(super) struct Place<'a> {
    pub(super) env: &'a Environment,
    pub(super) directory: &'a Path,
    pub(super) config: &'a Config,
    /// Whether a program that the configuration names may be run. It may come with the repository.
    pub(super) may_run: bool,
}

pub(super) fn check(place: &Place<'_>) -> Vec<Finding> {
    let configured = configured(place.config);
    let mut findings = Vec::new();
    for name in KNOWN.into_iter().chain(KnownAcpAgent::all().iter().map(|known| known.name)) {
        findings.extend(place.program(name).map(|program| place.judge(name, &program)));
        // A missing agent is reported only if there is none at all.
        if name == KNOWN[1] && findings.is_empty() && configured.is_empty() {
            findings.push(Finding::warn(
                "agent",
                format!("{} not found on PATH", KNOWN.join(" and ")),
                "install one, or name another agent in harness.toml",
            ));
        }
    }
    findings.extend(configured.into_iter().map(|name| place.look_for(name)));
    findings
}

impl Place<'_> {
    /// Returns the program of an agent, whatever name the configuration gives it.
    fn program(&self, name: &str) -> Option<PathBuf> {
        find(self.env, self.config.program(name).unwrap_or(name))
    }

    fn table(&self, name: &str) -> Agent {
        self.config.agents.get(name).cloned().unwrap_or_default()
    }

    /// Returns the version that it reports, if it may be asked. `None` for a launcher, which would
    /// report its own, and for a program of an untrusted repository.
    fn version(&self, name: &str, program: &Path) -> Option<Result<String, String>> {
        let own = self.table(name).command;
        let may_ask = match own.as_deref().map(|command| command.split_whitespace().count()) {
            None => true,
            Some(words) => words == 1 && self.may_run,
        };
        may_ask.then(|| version(program, self.directory))
    }

    /// Checks whether it runs, and whether it is signed in, as far as files and variables show.
    fn judge(&self, name: &str, program: &Path) -> Finding {
        let version = match self.version(name, program) {
            None => program.display().to_string(),
            Some(Ok(version)) => version,
            Some(Err(why)) => {
                return Finding::warn(
                    "agent",
                    format!("{name}: {} does not work: {why}", program.display()),
                    "reinstall it, or remove it from PATH",
                );
            }
        };
        let table = self.table(name);
        // The environment is that of its start.
        let env = self.env.and(&table.env);
        let login = match self.config.kind(name) {
            Some(AgentKind::Claude) => return claude::look(&env, name, &table, &version),
            Some(AgentKind::Codex) => codex::login(&env, &table),
            _ => login::of(&env, name),
        };
        match login {
            Login::Unknown => Finding::ok("agent", format!("{name}: {version}")),
            Login::By(what) => {
                Finding::ok("agent", format!("{name}: {version}, signed in by {what}"))
            }
            Login::NotNeeded(provider) => {
                let what = format!("{name}: {version}, provider {provider} needs no login");
                Finding::ok("agent", what)
            }
            Login::None { fix } => {
                Finding::warn("agent", format!("{name}: {version}, no sign of a login"), fix)
            }
        }
    }

    /// Checks whether the program of a configured agent exists, and reports problems that were not
    /// reported under its own name.
    fn look_for(&self, name: &str) -> Finding {
        let Some(program) = self.config.program(name) else {
            return Finding::ok("agent", format!("{name} is configured"));
        };
        let looked_for = !program.contains('/') || program.starts_with('/');
        let is_told = KNOWN.contains(&name) || KnownAcpAgent::named(name).is_some();
        let kind = self.config.kind(name);
        let is_agent = matches!(kind, Some(AgentKind::Claude | AgentKind::Codex | AgentKind::Acp));
        match find(self.env, program) {
            Some(path) if is_agent && !is_told => self.judge(name, &path),
            None if looked_for => Finding::fail(
                "agent",
                format!("{name} is configured, but {program} is not found on PATH"),
                "install it, or choose another `agent`",
            ),
            _ => Finding::ok("agent", format!("{name} is configured")),
        }
    }
}

/// Returns all agents that the configuration would use: the agent, its fallbacks, and the
/// summarizer.
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
