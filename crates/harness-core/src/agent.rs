//! What an agent tells while it works and how one execution of it ends, as the decisions see it.
//! How a particular program says these things is the business of its adapter.

use serde_json::Value;

use crate::Timestamp;

/// Something that happened inside an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    Text(String),
    Thinking(String),
    ToolStart {
        name: String,
        input: Option<Value>,
    },
    ToolEnd {
        name: String,
        result: Option<Value>,
        is_error: bool,
    },
    /// An increment, not a total.
    Usage(Usage),
    /// How full the context is, where the agent says so.
    Context {
        used_tokens: u64,
        window_tokens: u64,
    },
    /// A rate or usage limit was reported.
    Limit {
        until: Option<Timestamp>,
    },
    /// The agent's own name for its context, by which it can be resumed.
    Session(String),
    Checkpoint {
        step: u32,
        total: u32,
        description: String,
    },
}

/// Tokens and money. Cached input counts as input.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cost_usd = match (self.cost_usd, more.cost_usd) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
    }
}

/// How one execution ended. Exactly one of these comes of it.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// A proper end of a turn, whatever it says.
    Finished {
        final_text: String,
        usage: Usage,
    },
    Limited {
        until: Option<Timestamp>,
    },
    OutOfContext,
    Refused,
    Failed {
        kind: FailureKind,
        detail: String,
    },
    Stopped {
        by: StoppedBy,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// There is no such program.
    NotFound,
    Auth,
    Config,
    Network,
    /// It ended with an error, or was killed by somebody else.
    Crashed,
    /// It said something that its adapter does not understand.
    Protocol,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppedBy {
    /// Whoever runs the harness.
    User,
    /// The time for one execution was up.
    Timeout,
    /// It gave no sign of life for too long.
    Stall,
    Budget,
    /// The claim was lost.
    Fenced,
}
