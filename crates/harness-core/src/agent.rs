//! What an agent tells while it works and how one execution of it ends, as the decisions see it.
//! How a particular program says these things is the business of its adapter.

use serde_json::Value;

use crate::{Category, Timestamp};

/// Something that happened inside an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// A piece of what it says.
    Text(String),
    /// A piece of what it says to itself.
    Thinking(String),
    /// It begins to use a tool.
    ToolStart {
        /// Its own name for the tool.
        name: String,
        /// What the tool is given.
        input: Option<Value>,
    },
    /// The tool answered.
    ToolEnd {
        /// As in `ToolStart`.
        name: String,
        /// What it answered.
        result: Option<Value>,
        /// Whether the answer is a failure.
        is_error: bool,
    },
    /// An increment, not a total.
    Usage(Usage),
    /// What somebody who works for it used, at that one's own price: no part of its context.
    Helped(Usage),
    /// How full the context is, where the agent says so.
    Context {
        /// In the context now.
        used_tokens: u64,
        /// How many it holds.
        window_tokens: u64,
    },
    /// A rate or usage limit was reported.
    Limit {
        /// When it ends, where the agent says so.
        until: Option<Timestamp>,
    },
    /// The agent's own name for its context, by which it can be resumed. One that can not be is not
    /// told.
    Session(String),
    /// It says how far it came.
    Checkpoint {
        /// From 1.
        step: u32,
        /// How many there will be.
        total: u32,
        /// What is done now.
        description: String,
    },
    /// It says that the work is done (`harness task complete`): as good as the promise.
    Promised,
    /// It says that it can not do the task (`harness task fail`).
    GaveUp {
        /// What the failure counts as.
        category: Category,
        /// Why, in its words.
        message: String,
    },
}

/// Tokens and money. Cached input counts as input.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Read by the model.
    pub input_tokens: u64,
    /// Written by it.
    pub output_tokens: u64,
    /// Where the agent says so; never computed from a price list.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Input and output together.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// The larger of each.
    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.max(other.input_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
            cost_usd: match (self.cost_usd, other.cost_usd) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            },
        }
    }
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
        /// The last thing it said.
        final_text: String,
        /// Of all of the execution.
        usage: Usage,
    },
    /// A limit of the agent's own on one turn ended it in the middle: what it said last is no
    /// promise, and no failure either.
    CutShort {
        /// Which limit, in words.
        detail: String,
    },
    /// A rate or usage limit ended it.
    Limited {
        /// When the limit ends, where the agent says so.
        until: Option<Timestamp>,
    },
    /// Its context is full.
    OutOfContext,
    /// The model will not do this.
    Refused,
    /// It could not work.
    Failed {
        /// Whose fault that is.
        kind: FailureKind,
        /// In words, for people.
        detail: String,
    },
    /// We stopped it.
    Stopped {
        /// Why.
        by: StoppedBy,
    },
}

/// Why an execution failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// There is no such program.
    NotFound,
    /// It has no credentials, or they are not accepted.
    Auth,
    /// It was started in a way that it does not take.
    Config,
    /// It does not reach its model.
    Network,
    /// It ended with an error, or was killed by somebody else.
    Crashed,
    /// It said something that its adapter does not understand.
    Protocol,
}

/// Why we stopped an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppedBy {
    /// Whoever runs the harness.
    User,
    /// The time for one execution was up.
    Timeout,
    /// It gave no sign of life for too long.
    Stall,
    /// What it may cost was spent.
    Budget,
    /// The claim was lost.
    Fenced,
}

/// A context that outlives its execution: the next one can go on in it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptContext {
    /// The agent's own name for it.
    pub session: String,
    /// What was used in it so far, as the agent told. Some count by context and not by execution.
    pub used: Usage,
}
