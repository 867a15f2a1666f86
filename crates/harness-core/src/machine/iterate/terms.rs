//! The input of a loop and the effects that it asks for.

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

/// The starting point of a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    /// The stored run.
    pub run: Run,
    /// The stored iterations, oldest first.
    pub iterations: Vec<Iteration>,
    /// The process that drives it.
    pub by: Option<Owner>,
    /// The budget that pays, usually that of the run or of its parent.
    pub purse: Purse,
    /// The rules of the loop.
    pub rules: Rules,
    /// The phases of the ledger, for an objective. Their gates decide too.
    pub phases: Vec<Phase>,
    /// `true` if a person resumed it, so that earlier failures and idle iterations no longer count.
    pub afresh: bool,
}

/// The rules of a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// The form in which the promise must appear.
    pub promise_match: promise::Match,
    /// The limit of iterations without progress in a row; 0 means no limit.
    pub stall_limit: u32,
    /// `true` if the loop waits for usage limits to end.
    pub waits: bool,
    /// `true` if another context follows one that ended without the promise. It is `false` for a
    /// script.
    pub restarts: bool,
    /// The prices of the agents that report no cost, one entry for each agent. The first agent is
    /// preferred; the others take over while it is limited.
    pub prices: Vec<Option<Price>>,
    /// The names of the same agents, for people.
    pub names: Vec<String>,
    /// The lease of the driving process.
    pub lease_seconds: u64,
    /// The end of the attempt's time, for a task.
    pub until: Option<Timestamp>,
    /// The prefix of the transcripts: `<this>.<iteration>.log`, relative to the state root.
    pub transcripts: String,
}

/// An effect that a loop asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Reads the current state of the work.
    Look,
    /// Runs one execution of the agent.
    Work(Turn),
    /// Runs the gate of a phase.
    Gate {
        /// The phase.
        phase: Phase,
        /// The end of the run's time. A gate that runs until then has no result.
        until: Option<Timestamp>,
    },
    /// Runs the check of the run.
    Verify {
        /// A line for the shell.
        command: String,
        /// The end of the run's time.
        until: Option<Timestamp>,
    },
    /// Waits until then, or until a person ends the wait.
    Sleep {
        /// The time to wake up.
        until: Timestamp,
    },
}

/// The reason why an agent is asked to continue in the same context.
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
    /// The number of the iteration.
    pub number: u32,
    /// The reason for this context, for its prompt.
    pub cause: Cause,
    /// The kept context, if the last turn was blank: the agent is asked to continue in it. Without
    /// one, the agent gets the whole prompt again.
    pub kept: Option<KeptContext>,
    /// The reason why it is asked to continue in the context that is kept.
    pub nudge: Nudge,
    /// The index of the agent, from 0.
    pub agent: usize,
    /// The time by which it must end.
    pub until: Option<Timestamp>,
    /// The end of the last iteration's text.
    pub last_text: Option<String>,
    /// The remaining money, if it is limited. Agents that can enforce it themselves receive it,
    /// because some report their cost only at the end.
    pub cost_left_usd: Option<f64>,
}

/// The result of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// HEAD, and a fingerprint that changes when the work does.
    Looked {
        /// The current HEAD.
        head: Option<CommitId>,
        /// The fingerprint of HEAD, files and handoff.
        mark: Option<String>,
    },
    /// The agent stopped.
    Worked(End),
    /// The end of the gate.
    Gated(GateEnd),
    /// The check of the run ended.
    Verified {
        /// The verdict of the check.
        verdict: Verdict,
        /// The end of its output.
        output: String,
    },
    /// The time has come, or a person ended the wait.
    Woke {
        /// `true` if a person ended it. All known limits are then dropped.
        kicked: bool,
    },
}
