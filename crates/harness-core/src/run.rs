//! A run and its iterations, as they are stored. A run is one objective, one attempt at a task, or
//! one `harness run` over the ledger. An iteration is one fresh agent context.

mod id;

use std::fmt;

use serde::{Serialize, Serializer};

pub use id::RunId;

use crate::{
    CommitId, Epoch, TaskId, Timestamp,
    agent::{End, FailureKind, StoppedBy, Usage},
};

/// Defines a closed set of words that are stored and shown.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$each])* $variant,)* }

        impl $name {
            /// Returns the word that is stored and shown.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Returns `None` for an unknown word.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }
    };
}

words! {
    /// The status of a run.
    RunStatus {
        /// The run has not begun.
        Queued = "queued",
        /// A process drives the run, or was killed while it did. A run that waits for a usage limit
        /// has this status too.
        Running = "running",
        /// The run waits for the answer of a person.
        WaitingForHuman = "waiting_for_human",
        /// The run is finished and cannot be resumed.
        Succeeded = "succeeded",
        /// The run could not be carried out.
        Failed = "failed",
        /// A user or a program stopped it.
        Cancelled = "cancelled",
        /// One of its limits stopped it.
        Stopped = "stopped",
    }
}

words! {
    /// The reason why a run ended.
    StopReason {
        /// The promise was kept. For a run over the ledger: no task is left.
        Complete = "complete",
        /// The allowed number of restarts was reached.
        MaxIterations = "max_iterations",
        /// Money, tokens or time are used up.
        Budget = "budget",
        /// Nothing changed for several iterations.
        Stalled = "stalled",
        /// A usage limit was reached, and the run was not allowed to wait for its end.
        Limit = "limit",
        /// A user or a program asked for the stop.
        Cancelled = "cancelled",
        /// The agent, the init script or the check cannot be run here.
        EnvSetup = "env_setup",
        /// A person must change something.
        Config = "config",
        /// The agent failed three times in a row.
        Crashed = "crashed",
        /// The ledger allows no further session.
        MaxSessions = "max_sessions",
        /// Only one session was asked for, or only some tasks, which wait for others.
        Once = "once",
        /// The gate of a phase did not pass.
        Gate = "gate",
    }
}

words! {
    /// The end of the context of an iteration. No value says whether the work is good.
    Ending {
        /// The turn ended in a regular way, with or without the promise.
        Finished = "finished",
        /// A limit of the agent's own ended it in the middle of its work.
        CutShort = "cut_short",
        /// The context window was full.
        OutOfContext = "out_of_context",
        /// The model refused the work.
        Refused = "refused",
        /// The agent ended with an error, or was killed.
        Crashed = "crashed",
        /// The agent could not reach its model.
        Network = "network",
        /// The adapter could not parse the output of the agent.
        Protocol = "protocol",
        /// The agent showed no activity for too long, or its time was up.
        Silent = "silent",
    }
}

impl StopReason {
    /// Returns the status that a run with this stop reason gets.
    pub fn status(self) -> RunStatus {
        match self {
            Self::Complete => RunStatus::Succeeded,
            Self::Cancelled => RunStatus::Cancelled,
            Self::EnvSetup | Self::Config | Self::Crashed => RunStatus::Failed,
            Self::MaxIterations
            | Self::Budget
            | Self::Stalled
            | Self::Limit
            | Self::MaxSessions
            | Self::Once
            | Self::Gate => RunStatus::Stopped,
        }
    }
}

impl RunStatus {
    /// Returns whether the run has ended, so that no process drives it any more.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::Stopped)
    }
}

impl Ending {
    /// Returns the recorded ending for `end`. Returns `None` if the iteration does not end with it,
    /// but continues under the same number.
    pub fn of(end: &End) -> Option<Self> {
        Some(match end {
            End::Finished { .. } => Self::Finished,
            End::CutShort { .. } => Self::CutShort,
            End::OutOfContext => Self::OutOfContext,
            End::Refused => Self::Refused,
            End::Failed { kind: FailureKind::Crashed, .. } => Self::Crashed,
            End::Failed { kind: FailureKind::Network, .. } => Self::Network,
            End::Failed { kind: FailureKind::Protocol, .. } => Self::Protocol,
            End::Stopped { by: StoppedBy::Stall | StoppedBy::Timeout } => Self::Silent,
            End::Failed { .. } | End::Limited { .. } | End::Stopped { .. } => return None,
        })
    }

    /// Returns whether this counts as a failure. Three failures in a row end the run.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Finished | Self::CutShort | Self::OutOfContext)
    }
}

/// The limits of a run. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunLimits {
    /// The number of restarts. The number of contexts is one larger.
    pub max_iterations: u32,
    /// The limit in US dollars.
    pub max_cost_usd: Option<f64>,
    /// The limit of input and output tokens together, cached input included.
    pub max_tokens: Option<u64>,
    /// The time limit, counted from this start or resume.
    pub max_duration_seconds: Option<u64>,
}

impl RunLimits {
    /// Returns the limit of money or tokens that is used up, as a text for people.
    pub fn used_up(&self, spent: &Usage) -> Option<String> {
        if let Some(most) = self.max_cost_usd
            && spent.cost_usd.unwrap_or_default() >= most
        {
            return Some(format!("{:.2} of {most:.2} USD", spent.cost_usd.unwrap_or_default()));
        }
        match self.max_tokens {
            Some(most) if spent.tokens() >= most => {
                Some(format!("{} of {most} tokens", spent.tokens()))
            }
            _ => None,
        }
    }
}

/// The amounts that a run may use, as they hold now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Allowance {
    /// The limits.
    pub limits: RunLimits,
    /// The time at which its time limit ends.
    pub deadline: Option<Timestamp>,
}

/// A change of the budget of a run. `None` keeps a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// The new limit in US dollars.
    pub max_cost_usd: Option<f64>,
    /// The new limit of tokens.
    pub max_tokens: Option<u64>,
    /// The new time limit.
    pub max_duration_seconds: Option<u64>,
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.max_cost_usd.map(|cost| format!("{cost:.2} USD")),
            self.max_tokens.map(|tokens| format!("{tokens} tokens")),
            self.max_duration_seconds.map(|seconds| format!("{seconds} seconds")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

impl Budget {
    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns what a run may use after this change at `now`. Its time is counted from its start or
    /// resume; if it had no time limit, from now on.
    pub fn applied(&self, to: Allowance, now: Timestamp) -> Allowance {
        let limits = RunLimits {
            max_cost_usd: self.max_cost_usd.or(to.limits.max_cost_usd),
            max_tokens: self.max_tokens.or(to.limits.max_tokens),
            max_duration_seconds: self.max_duration_seconds.or(to.limits.max_duration_seconds),
            ..to.limits
        };
        let deadline = match (self.max_duration_seconds, to.deadline) {
            (None, deadline) => deadline,
            (Some(seconds), Some(deadline)) => {
                let before = to.limits.max_duration_seconds.unwrap_or(0);
                Some(deadline.minus(before).plus(seconds))
            }
            (Some(seconds), None) => Some(now.plus(seconds)),
        };
        Allowance { limits, deadline }
    }
}

/// The process that drives a run. The start time distinguishes it from a later process with the
/// same pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The name of the machine.
    pub host: String,
    /// The process id on that machine.
    pub pid: u32,
    /// The start time of the process, in the form that the machine reports.
    pub started: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.host, self.pid, self.started)
    }
}

impl Owner {
    /// Parses the form of `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (host, pid, started) = (words.next()?, words.next()?, words.next()?);
        Some(Self { host: host.to_owned(), pid: pid.parse().ok()?, started: started.to_owned() })
    }
}

/// The right to drive a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLease {
    /// The process that holds the lease.
    pub owner: Owner,
    /// The end of the lease. It matters for an owner on another machine, which cannot be checked
    /// for being alive.
    pub expires_at: Timestamp,
}

/// One row of `runs`.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The name of the run.
    pub id: RunId,
    /// The time at which the run was created.
    pub created_at: Timestamp,
    /// The time at which the row last changed.
    pub updated_at: Timestamp,
    /// The status.
    pub status: RunStatus,
    /// The objective; `None` for an attempt and for a run over the ledger.
    pub objective: Option<String>,
    /// The task of an attempt.
    pub task: Option<TaskId>,
    /// The epoch of its claim.
    pub epoch: Option<Epoch>,
    /// The name of the agent.
    pub agent: String,
    /// The command of the agent, as given on the command line.
    pub agent_command: Option<String>,
    /// The command that verifies the promise.
    pub verify: Option<String>,
    /// The work tree.
    pub workspace: String,
    /// The number of restarts so far. It never decreases.
    pub iteration_count: u32,
    /// The text by which the agent ends the run.
    pub completion_promise: String,
    /// The limits of the run.
    pub limits: RunLimits,
    /// The reason for the end, once the run has ended.
    pub stop_reason: Option<StopReason>,
    /// The agent's own name for its last context.
    pub provider_session_id: Option<String>,
    /// For an attempt: the run over the ledger that it belongs to.
    pub parent: Option<RunId>,
    /// The usage of the whole run, its attempts included.
    pub usage: Usage,
    /// The time at which its time limit ends.
    pub deadline: Option<Timestamp>,
    /// The end of the wait for a usage limit, while the run waits.
    pub wake_at: Option<Timestamp>,
    /// The lease of the driving process. An attempt has none, because the ledger fences it.
    pub lease: Option<RunLease>,
}

impl Run {
    /// Returns what the run may use.
    pub fn allowance(&self) -> Allowance {
        Allowance { limits: self.limits, deadline: self.deadline }
    }

    /// The default promise.
    pub const PROMISE: &str = "TASK_COMPLETE";

    /// Returns a row in which nothing has happened yet. The caller fills in its purpose.
    pub fn queued(id: RunId, now: Timestamp) -> Self {
        Self {
            id,
            created_at: now,
            updated_at: now,
            status: RunStatus::Queued,
            objective: None,
            task: None,
            epoch: None,
            agent: String::new(),
            agent_command: None,
            verify: None,
            workspace: String::new(),
            iteration_count: 0,
            completion_promise: Self::PROMISE.to_owned(),
            limits: RunLimits::default(),
            stop_reason: None,
            provider_session_id: None,
            parent: None,
            usage: Usage::default(),
            deadline: None,
            wake_at: None,
            lease: None,
        }
    }
}

/// One row of `iterations`.
#[derive(Debug, Clone, PartialEq)]
pub struct Iteration {
    /// The number, from 0. It equals the number of restarts before it.
    pub number: u32,
    /// The time at which its context was last started.
    pub started_at: Timestamp,
    /// The number of starts. It exceeds one after a crash or a stop.
    pub starts: u32,
    /// The end; `None` while it continues, and after a crash.
    pub ended_at: Option<Timestamp>,
    /// The kind of end.
    pub ending: Option<Ending>,
    /// The reason of a failure, as text.
    pub detail: Option<String>,
    /// The usage of all its executions.
    pub usage: Usage,
    /// The parts of that usage by agent. A row of an older program has none, or not all of it.
    pub agents: Vec<(String, Usage)>,
    /// The last text of the agent.
    pub final_text: Option<String>,
    /// The path of the transcript, relative to the state root.
    pub transcript: Option<String>,
    /// HEAD at the start.
    pub head_before: Option<CommitId>,
    /// HEAD at the end.
    pub head_after: Option<CommitId>,
    /// A fingerprint of the work at the start: HEAD, files and handoff.
    pub mark_before: Option<String>,
    /// The same fingerprint at the end. If the two are equal, nothing was done.
    pub mark_after: Option<String>,
}

impl Iteration {
    /// Returns an iteration of which only the start is known.
    pub fn begun(number: u32, started_at: Timestamp) -> Self {
        Self {
            number,
            started_at,
            starts: 1,
            ended_at: None,
            ending: None,
            detail: None,
            usage: Usage::default(),
            agents: Vec::new(),
            final_text: None,
            transcript: None,
            head_before: None,
            head_after: None,
            mark_before: None,
            mark_after: None,
        }
    }

    /// Adds what `agent` used.
    pub(crate) fn spend(&mut self, agent: &str, usage: Usage) {
        self.usage += usage;
        match self.agents.iter_mut().find(|(name, _)| name == agent) {
            Some((_, sum)) => *sum += usage,
            None => self.agents.push((agent.to_owned(), usage)),
        }
    }

    /// Returns whether the iteration ended and changed nothing.
    pub fn is_idle(&self) -> bool {
        self.ended_at.is_some() && self.mark_after.is_some() && self.mark_after == self.mark_before
    }
}

/// The price of a million tokens in US dollars, for agents that report no cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// The price of tokens that the model reads.
    pub input: f64,
    /// The price of tokens that the model writes.
    pub output: f64,
}

impl Price {
    /// Adds the computed cost to `usage`. A cost that the agent reported takes precedence.
    pub fn fill_in(&self, usage: Usage) -> Usage {
        #[expect(clippy::cast_precision_loss, reason = "nobody pays for 2^53 tokens")]
        let cost = (usage.input_tokens as f64 * self.input
            + usage.output_tokens as f64 * self.output)
            / 1e6;
        Usage { cost_usd: usage.cost_usd.or(Some(cost)), ..usage }
    }
}
