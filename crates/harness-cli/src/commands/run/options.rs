//! The options of the library's engine, as the arguments and the configuration choose them.

use std::{ffi::OsString, path::Path, sync::Arc, time::Duration};

use harness::{
    agent::CodingAgent,
    core::{
        machine::session::{Crew, SessionTerms},
        promise,
        variables::WORKER,
    },
    flows::Team,
    named,
    project::{AgentTerms, RunOptions},
    shell::SystemShell,
};

use super::{agent::Agents, session::Session};
use crate::config::{Notify, PromiseMatch};

impl Session<'_> {
    pub(super) fn options(&self, agents: &Agents, socket: &Path) -> RunOptions {
        let mut options = RunOptions::new(Arc::new(self.workspace.clone()));
        options.shell = Arc::new(SystemShell {
            secrets: Some(self.secrets.clone()),
            withheld: self.withheld(),
            ..SystemShell::default()
        });
        options.environment = self.environment();
        options.lease_seconds = self.lease_seconds;
        options.agents = self.agent_terms(agents);
        options.summarizer_price = agents.summarizer_price;
        options.committer = self.committer();
        options.socket = Some(socket.to_owned());
        options.rules = self.rules.clone();
        options.promise_match = match self.config.promise_match {
            PromiseMatch::Line => promise::Match::Line,
            PromiseMatch::Token => promise::Match::Token,
            PromiseMatch::Tag => promise::Match::Tag,
        };
        options.stall_limit = self.config.stall_limit;
        options.waits = !self.args.no_wait;
        options.restarts = !matches!(agents.worker, CodingAgent::Shell(_));
        options.prompts = Arc::new(self.prompts.clone());
        options
    }

    pub(super) fn session(&self, crew: Option<Crew>) -> SessionTerms {
        let first = crew.as_ref().and_then(|crew| crew.members.first());
        SessionTerms {
            worker: first.map_or_else(|| self.worker.id.clone(), |first| first.worker.clone()),
            scope: self.scope.clone(),
            labels: self.args.label.clone(),
            pid: std::process::id(),
            lease_seconds: self.lease_seconds,
            max_tasks: self.max_tasks,
            max_sessions: self.max_sessions,
            crew,
            when_full: self.when_full,
            until: None,
            heartbeat: None,
        }
    }

    /// Returns the environment with the worker of the run, because an agent of an objective may use
    /// commands of workers.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let withheld = self.withheld();
        let is_kept = |name: &OsString| {
            name != WORKER && !withheld.iter().any(|secret| name == secret.as_str())
        };
        let mut all: Vec<_> = std::env::vars_os().filter(|(name, _)| is_kept(name)).collect();
        all.push((WORKER.into(), self.worker.id.as_str().into()));
        all
    }

    /// Returns the variables with secrets of channels, which neither agents nor checks get.
    fn withheld(&self) -> Vec<String> {
        self.config.notify.iter().flat_map(Notify::variables).map(str::to_owned).collect()
    }

    fn agent_terms(&self, agents: &Agents) -> Vec<AgentTerms> {
        let known = agents.names.iter().zip(&agents.prices);
        known
            .map(|(name, price)| AgentTerms {
                name: name.clone(),
                price: *price,
                stall: self.stall(name),
            })
            .collect()
    }

    fn committer(&self) -> Option<String> {
        let user = || self.workspace.committer().unwrap_or_else(|| "harness".to_owned());
        self.config.git.mark.then(user)
    }

    /// Returns how long the agent of this name may be silent.
    fn stall(&self, name: &str) -> Option<Duration> {
        let own = self.config.agents.get(name).and_then(|agent| agent.stall_seconds);
        let seconds = own.unwrap_or(self.config.stall_seconds);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

pub(super) fn team(agents: Agents) -> Team<CodingAgent> {
    let others = agents.others.into_iter().map(|(name, agent)| named(&name, agent)).collect();
    Team {
        worker: named("worker", agents.worker),
        others,
        summarizer: agents.summarizer.map(|agent| named("summarizer", agent)),
    }
}
