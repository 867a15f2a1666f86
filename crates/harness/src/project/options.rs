//! How a run works: what the program around it chooses.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use harness_core::{
    lease::SESSION_LEASE_SECONDS,
    machine::{attempt, iterate},
    promise,
    run::Price,
};

use super::{ActiveRun, RUN_LEASE_SECONDS};
use crate::{
    flows::{LoopSettings, Record},
    prompts::Prompts,
    shell::{Shell, SystemShell},
    workspace::Workspace,
};

/// Contexts without progress in a row after which a loop stops.
const STALL_LIMIT: u32 = 3;

/// How a run works. [`new`](RunOptions::new) gives what `harness run` does without a configuration.
#[non_exhaustive]
pub struct RunOptions {
    /// Git.
    pub workspace: Arc<dyn Workspace>,
    /// Checks, the init script, cleanups.
    pub shell: Arc<dyn Shell>,
    /// The environment of the process, of which agents get what they may see.
    pub environment: Vec<(OsString, OsString)>,
    /// How long a claim lasts without a sign of life.
    pub lease_seconds: u64,
    /// Worker and others, by preference as in the [`Team`](crate::flows::Team).
    pub agents: Vec<AgentTerms>,
    /// The price of a summarizer that reports no money.
    pub summarizer_price: Option<Price>,
    /// The user's name for the committer of what an attempt commits, to which its mark is added;
    /// `None`: commits of attempts are not marked.
    pub committer: Option<String>,
    /// The socket on which agents ask their host, if there is one.
    pub socket: Option<PathBuf>,
    /// How work is judged.
    pub rules: attempt::Rules,
    /// Where receipts are recorded; `None`: in the state root.
    pub receipts: Option<Arc<Record>>,
    /// How the promise is looked for.
    pub promise_match: promise::Match,
    /// Iterations without progress in a row; 0 is no limit.
    pub stall_limit: u32,
    /// Whether usage limits are waited out.
    pub waits: bool,
    /// Whether a context that ended without the promise is followed by another. That of a script is not.
    pub restarts: bool,
    /// The texts for agents.
    pub prompts: Arc<Prompts>,
}

/// What a run knows about one of its agents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentTerms {
    /// Its name for people.
    pub name: String,
    /// Its price, if it reports no money.
    pub price: Option<Price>,
    /// How long it may be silent.
    pub stall: Option<Duration>,
}

impl RunOptions {
    /// With the environment of this process and the built-in prompts.
    pub fn new(workspace: Arc<dyn Workspace>) -> Self {
        Self {
            workspace,
            shell: Arc::new(SystemShell::default()),
            environment: std::env::vars_os().collect(),
            lease_seconds: SESSION_LEASE_SECONDS,
            agents: Vec::new(),
            summarizer_price: None,
            committer: None,
            socket: None,
            rules: attempt::Rules::default(),
            receipts: None,
            promise_match: promise::Match::Line,
            stall_limit: STALL_LIMIT,
            waits: true,
            restarts: true,
            prompts: Arc::new(Prompts::built_in()),
        }
    }

    /// How the loops over contexts of `run` go.
    pub(super) fn loops(&self, run: &ActiveRun) -> LoopSettings {
        LoopSettings {
            runs: Arc::clone(&run.runs),
            run: run.row().id.clone(),
            by: Some(run.driver.owner.clone()),
            new_id: Arc::clone(&run.driver.new_id),
            rules: iterate::Rules {
                promise_match: self.promise_match,
                stall_limit: self.stall_limit,
                waits: self.waits,
                restarts: self.restarts,
                prices: self.agents.iter().map(|agent| agent.price).collect(),
                names: self.agents.iter().map(|agent| agent.name.clone()).collect(),
                lease_seconds: RUN_LEASE_SECONDS,
                until: None,
                transcripts: String::new(),
            },
            summarizer_price: self.summarizer_price,
            prompts: Arc::clone(&self.prompts),
        }
    }
}
