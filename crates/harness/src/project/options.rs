//! The options of a run, which the program around it chooses.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use harness_core::{
    lease::SESSION_LEASE_SECONDS,
    machine::{attempt, iterate},
    promise,
    run::Price,
};

use super::{ActiveRun, RUN_LEASE_SECONDS};
use crate::{
    flows::{LoopSettings, ReadReceipt, Record, SharedWork},
    prompts::Prompts,
    shell::{Shell, SystemShell},
    workspace::Workspace,
};

/// Contexts without progress in a row after which a loop stops.
const STALL_LIMIT: u32 = 3;

/// The options of a run. [`new`](RunOptions::new) returns the options of `harness run` without a
/// configuration.
#[non_exhaustive]
pub struct RunOptions {
    /// The work tree, under version control.
    pub workspace: Arc<dyn Workspace>,
    /// Runs checks, the init script and cleanups.
    pub shell: Arc<dyn Shell>,
    /// The environment of the process. Agents receive the part of it that they may see.
    pub environment: Vec<(OsString, OsString)>,
    /// The duration of a claim without a sign of life.
    pub lease_seconds: u64,
    /// The worker and the others, in the order of the [`Team`](crate::flows::Team).
    pub agents: Vec<AgentTerms>,
    /// The price of a summarizer that reports no cost.
    pub summarizer_price: Option<Price>,
    /// The user's name for the committer of an attempt's commits, to which a mark is added; `None`
    /// if commits of attempts are not marked.
    pub committer: Option<String>,
    /// The socket on which agents ask their host, if there is one.
    pub socket: Option<PathBuf>,
    /// The rules by which work is judged.
    pub rules: attempt::Rules,
    /// The record of receipts; `None` for the one in the state root.
    pub receipts: Option<Arc<Record>>,
    /// Reads the receipts of other workers; `None` for those in the state root.
    pub kept_receipts: Option<Arc<ReadReceipt>>,
    /// The rule by which the promise is searched.
    pub promise_match: promise::Match,
    /// Iterations without progress in a row; 0 is no limit.
    pub stall_limit: u32,
    /// Whether the run waits until a usage limit ends.
    pub waits: bool,
    /// Whether another context follows one that ended without the promise. The context of a script
    /// is not repeated.
    pub restarts: bool,
    /// The texts for agents.
    pub prompts: Arc<Prompts>,
    /// What several workers share; `None` for one worker in the main tree.
    pub shared: Option<SharedWork>,
}

/// The terms of one agent of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentTerms {
    /// Its name for people.
    pub name: String,
    /// Its price, if it reports no cost.
    pub price: Option<Price>,
    /// The longest time that it may be silent.
    pub stall: Option<Duration>,
}

impl RunOptions {
    /// Creates options with the environment of this process and the built-in prompts.
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
            kept_receipts: None,
            promise_match: promise::Match::Line,
            stall_limit: STALL_LIMIT,
            waits: true,
            restarts: true,
            prompts: Arc::new(Prompts::built_in()),
            shared: None,
        }
    }

    /// Returns the settings of the loops over contexts of `run`.
    pub(super) fn loops(&self, run: &ActiveRun) -> LoopSettings {
        LoopSettings {
            runs: Arc::clone(&run.runs),
            run: run.row().id.clone(),
            by: Some(run.driven_by()),
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
