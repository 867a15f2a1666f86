//! A run: one objective, one attempt at a task, or one `harness run` over the ledger. And its
//! iterations: one fresh agent context each. What is stored of both, and nothing else.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    BadName, CommitId, Epoch, TaskId, Timestamp,
    agent::{End, FailureKind, StoppedBy, Usage},
};

/// The name of a run: a UUID, sorted by time.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(Arc<str>);

impl RunId {
    const RULE: &'static str = "a UUID such as 0197f0a2-0000-7000-8000-000000000000";

    /// Or says which rule it breaks.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let hyphens = [8, 13, 18, 23];
        let good = text.len() == 36
            && text.bytes().enumerate().all(|(at, b)| match hyphens.contains(&at) {
                true => b == b'-',
                false => b.is_ascii_hexdigit(),
            });
        if good {
            return Ok(Self(text.to_ascii_lowercase().into()));
        }
        Err(BadName { what: "run id", given: text.chars().take(80).collect(), rule: Self::RULE })
    }

    /// Of the 128 bits of a UUID.
    pub fn of_bits(bits: u128) -> Self {
        let hex = format!("{bits:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Self(parts.join("-").into())
    }

    /// As it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A closed set of words that are stored and shown.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$each])* $variant,)* }

        impl $name {
            /// As it is stored and shown.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// `None` for a word that is none of ours.
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
    /// Where a run stands.
    RunStatus {
        /// Not begun.
        Queued = "queued",
        /// Somebody drives it, or was killed while doing so. A wait for a usage limit is this too.
        Running = "running",
        /// Nothing happens until a person answers.
        WaitingForHuman = "waiting_for_human",
        /// For good: it can not be resumed.
        Succeeded = "succeeded",
        /// It could not be run.
        Failed = "failed",
        /// Somebody stopped it.
        Cancelled = "cancelled",
        /// One of its limits did.
        Stopped = "stopped",
    }
}

words! {
    /// Why a run ended.
    StopReason {
        /// The promise was kept; over the ledger: nothing is left.
        Complete = "complete",
        /// As many restarts as were allowed.
        MaxIterations = "max_iterations",
        /// Money, tokens or time are used up.
        Budget = "budget",
        /// Nothing changed for several iterations.
        Stalled = "stalled",
        /// A usage limit, and nobody wanted to wait.
        Limit = "limit",
        /// Somebody asked for it.
        Cancelled = "cancelled",
        /// The agent, the init script or the check can not be run here.
        EnvSetup = "env_setup",
        /// A person has to change something.
        Config = "config",
        /// The agent failed three times in a row.
        Crashed = "crashed",
        /// The ledger allows no further session.
        MaxSessions = "max_sessions",
        /// Only one session was asked for.
        Once = "once",
        /// The gate of a phase did not pass.
        Gate = "gate",
    }
}

words! {
    /// How the context of an iteration ended. None of these says whether the work is good.
    Ending {
        /// Properly, with or without the promise.
        Finished = "finished",
        /// By a limit of the agent's own, in the middle of its work.
        CutShort = "cut_short",
        /// Its window was full.
        OutOfContext = "out_of_context",
        /// The model would not.
        Refused = "refused",
        /// With an error, or killed.
        Crashed = "crashed",
        /// Its model was not reached.
        Network = "network",
        /// It was not understood.
        Protocol = "protocol",
        /// No sign of life for too long.
        Silent = "silent",
    }
}

impl StopReason {
    /// What it makes of the run.
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
    /// Whether nobody drives it any more.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::Stopped)
    }
}

impl Ending {
    /// What is recorded of an end, and its words; `None` for one that is no end of the iteration:
    /// it goes on under the same number.
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

    /// Three of these in a row are enough.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Finished | Self::CutShort | Self::OutOfContext)
    }
}

/// What a run may use. `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunLimits {
    /// Restarts, so that there is one context more.
    pub max_iterations: u32,
    /// Dollars.
    pub max_cost_usd: Option<f64>,
    /// Input and output together, cached input included.
    pub max_tokens: Option<u64>,
    /// From this start or resume on.
    pub max_duration_seconds: Option<u64>,
}

impl RunLimits {
    /// What of money and tokens is used up, in words for a person.
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

/// Who drives a run. The start time makes a process that got its pid later another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The machine.
    pub host: String,
    /// On it.
    pub pid: u32,
    /// As the machine counts it.
    pub started: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.host, self.pid, self.started)
    }
}

impl Owner {
    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (host, pid, started) = (words.next()?, words.next()?, words.next()?);
        Some(Self { host: host.to_owned(), pid: pid.parse().ok()?, started: started.to_owned() })
    }
}

/// The right to drive a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLease {
    /// Who has it.
    pub owner: Owner,
    /// Of an owner on another machine it is not known whether it lives; after this it is over.
    pub expires_at: Timestamp,
}

/// One row of `runs`.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its name.
    pub id: RunId,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When the row last changed.
    pub updated_at: Timestamp,
    /// Where it stands.
    pub status: RunStatus,
    /// What it is for; `None` for an attempt and for a run over the ledger.
    pub objective: Option<String>,
    /// The task of an attempt.
    pub task: Option<TaskId>,
    /// And its claim.
    pub epoch: Option<Epoch>,
    /// The name of the agent.
    pub agent: String,
    /// As it was given on the command line.
    pub agent_command: Option<String>,
    /// What makes the promise objective.
    pub verify: Option<String>,
    /// The work tree.
    pub workspace: String,
    /// Restarts so far; never goes down.
    pub iteration_count: u32,
    /// What ends it when the agent says so.
    pub completion_promise: String,
    /// What it may use.
    pub limits: RunLimits,
    /// Once it is over.
    pub stop_reason: Option<StopReason>,
    /// The agent's own name for its last context.
    pub provider_session_id: Option<String>,
    /// Over the ledger: of each of its attempts.
    pub parent: Option<RunId>,
    /// Of all of it, its attempts included.
    pub usage: Usage,
    /// When its time is up.
    pub deadline: Option<Timestamp>,
    /// While it waits for a usage limit to lift.
    pub wake_at: Option<Timestamp>,
    /// Who drives it; an attempt has none, the ledger fences it.
    pub lease: Option<RunLease>,
}

impl Run {
    /// What ends a run when nobody chose another word.
    pub const PROMISE: &str = "TASK_COMPLETE";

    /// A row of which nothing has happened yet; the caller names what it is for.
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
    /// From 0, the restarts before it.
    pub number: u32,
    /// When its context was last started.
    pub started_at: Timestamp,
    /// How often it was: more than once after a crash or a stop.
    pub starts: u32,
    /// `None` while it goes on, and after a crash.
    pub ended_at: Option<Timestamp>,
    /// How.
    pub ending: Option<Ending>,
    /// Why it failed, in words.
    pub detail: Option<String>,
    /// Of its executions.
    pub usage: Usage,
    /// The last thing it said.
    pub final_text: Option<String>,
    /// Where all that it said is, from the state root.
    pub transcript: Option<String>,
    /// HEAD when it started.
    pub head_before: Option<CommitId>,
    /// And when it ended.
    pub head_after: Option<CommitId>,
    /// What the work looked like when it started: HEAD, files and handoff.
    pub mark_before: Option<String>,
    /// And when it ended. The same as before: nothing was done.
    pub mark_after: Option<String>,
}

impl Iteration {
    /// Nothing is known of it yet.
    pub fn begun(number: u32, started_at: Timestamp) -> Self {
        Self {
            number,
            started_at,
            starts: 1,
            ended_at: None,
            ending: None,
            detail: None,
            usage: Usage::default(),
            final_text: None,
            transcript: None,
            head_before: None,
            head_after: None,
            mark_before: None,
            mark_after: None,
        }
    }

    /// Whether it ended and changed nothing.
    pub fn is_idle(&self) -> bool {
        self.ended_at.is_some() && self.mark_after.is_some() && self.mark_after == self.mark_before
    }
}

/// Dollars for a million tokens, for agents that tell no money.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Read by the model.
    pub input: f64,
    /// Written by it.
    pub output: f64,
}

impl Price {
    /// What the agent says itself goes before the list.
    pub fn fill_in(&self, usage: Usage) -> Usage {
        #[expect(clippy::cast_precision_loss, reason = "nobody pays for 2^53 tokens")]
        let cost = (usage.input_tokens as f64 * self.input
            + usage.output_tokens as f64 * self.output)
            / 1e6;
        Usage { cost_usd: usage.cost_usd.or(Some(cost)), ..usage }
    }
}
