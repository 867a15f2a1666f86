//! What a loop is told and what it asks for.

use super::{Cause, Purse};
use crate::{
    CommitId, Iteration, Run, Timestamp,
    agent::{End, KeptContext},
    check::Verdict,
    ledger::Phase,
    machine::gate::GateEnd,
    promise,
    run::{Owner, Price},
};

/// What a loop starts from.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    /// As it is stored.
    pub run: Run,
    /// What is stored of its iterations, oldest first.
    pub iterations: Vec<Iteration>,
    /// Who drives it.
    pub by: Option<Owner>,
    /// The budget that pays, mostly the run's own or its parent's.
    pub purse: Purse,
    /// How it is decided.
    pub rules: Rules,
    /// Of the ledger, for an objective: their gates decide too.
    pub phases: Vec<Phase>,
    /// A person took it up again: what failed or stood still before counts no more.
    pub afresh: bool,
}

/// How a loop is decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// How the promise is looked for.
    pub promise_match: promise::Match,
    /// Iterations without progress in a row; 0 is no limit.
    pub stall_limit: u32,
    /// Usage limits are waited out.
    pub waits: bool,
    /// A context that ended without the promise is followed by another; not so a script's.
    pub restarts: bool,
    /// What the agents cost that tell no money. One for each agent; the first is preferred, the
    /// others take over while it is limited.
    pub prices: Vec<Option<Price>>,
    /// Of the same agents, for people.
    pub names: Vec<String>,
    /// How long whoever drives it is believed.
    pub lease_seconds: u64,
    /// Of a task: its attempt has to end by then.
    pub until: Option<Timestamp>,
    /// Transcripts are `<this>.<iteration>.log`, from the state root.
    pub transcripts: String,
}

/// What a loop asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// What the work looks like now.
    Look,
    /// One execution of the agent.
    Work(Turn),
    /// The gate of a phase.
    Gate {
        /// Which.
        phase: Phase,
        /// The run's time is up then, and the gate has said nothing.
        until: Option<Timestamp>,
    },
    /// The run's own check.
    Verify {
        /// A line for the shell.
        command: String,
        /// The run's time is up then.
        until: Option<Timestamp>,
    },
    /// Nothing, until then or until somebody has enough of it.
    Sleep {
        /// When to wake.
        until: Timestamp,
    },
}

/// Why an agent is asked to go on in the same context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nudge {
    /// Its last turn ended without a message.
    #[default]
    Blank,
    /// Its last message holds the promise in a way that does not count.
    Mention,
}

/// One execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The iteration.
    pub number: u32,
    /// What this context is told.
    pub cause: Cause,
    /// Its last turn said nothing: in this context it is told to go on. Where there is none to go on
    /// with, it is told all of it again.
    pub kept: Option<KeptContext>,
    /// Why it is asked to go on in the context that is kept.
    pub nudge: Nudge,
    /// Which agent, from 0.
    pub agent: usize,
    /// It has to end by then.
    pub until: Option<Timestamp>,
    /// The end of what the last iteration said.
    pub last_text: Option<String>,
    /// What is left of the money, where it is limited: for agents that keep to it by themselves,
    /// since some tell what they cost only when they are done.
    pub cost_left_usd: Option<f64>,
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// HEAD, and a word that changes when the work does.
    Looked {
        /// As it stands.
        head: Option<CommitId>,
        /// HEAD, files and handoff in one.
        mark: Option<String>,
    },
    /// The agent stopped.
    Worked(End),
    /// The gate passed or not.
    Gated(GateEnd),
    /// The run's own check ended.
    Verified {
        /// What it says.
        verdict: Verdict,
        /// The end of its output.
        output: String,
    },
    /// The time has come, or somebody had enough.
    Woke {
        /// By a person: no limit is believed any more.
        kicked: bool,
    },
}
