//! The events of an agent and the end of one execution, in the form that the decisions use.
//!
//! The adapter of each program translates its output into these types.

use serde_json::Value;

use crate::{Category, Timestamp};

/// Something that happened inside an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The agent wrote a piece of its answer.
    Text(String),
    /// The agent wrote a piece of its reasoning.
    Thinking(String),
    /// A tool call started.
    ToolStart {
        /// The agent's own name for the tool.
        name: String,
        /// The arguments of the call.
        input: Option<Value>,
    },
    /// A tool call returned.
    ToolEnd {
        /// The same name as in `ToolStart`.
        name: String,
        /// The result of the call.
        result: Option<Value>,
        /// `true` if the tool reported a failure.
        is_error: bool,
    },
    /// Usage since the last report. It is an increment, not a total.
    Usage(Usage),
    /// The usage of a helper of this agent, at the helper's own price. It takes no space in the
    /// agent's context.
    Helped(Usage),
    /// The fill level of the context, if the agent reports it.
    Context {
        /// The number of tokens in the context now.
        used_tokens: u64,
        /// The number of tokens that the context can hold.
        window_tokens: u64,
    },
    /// A rate or usage limit was reported.
    Limit {
        /// The end of the limit, if the agent reports it.
        until: Option<Timestamp>,
    },
    /// The agent's own name for its context, by which it can be resumed. A context that cannot be
    /// resumed is not reported.
    Session(String),
    /// The agent reports its progress.
    Checkpoint {
        /// The number of the step, from 1.
        step: u32,
        /// The expected number of steps.
        total: u32,
        /// A description of the finished step.
        description: String,
    },
    /// The agent reports that the work is done (`harness task complete`). This counts as the
    /// promise.
    Promised,
    /// The agent reports that it cannot do the task (`harness task fail`).
    GaveUp {
        /// The category of the failure.
        category: Category,
        /// The reason, in the agent's words.
        message: String,
    },
}

/// Tokens and money. Cached input counts as input.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// The cost that the agent reported. It is never computed from a price list.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Returns input and output tokens together.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Returns the larger value of each field.
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

/// The end of one execution. Each execution has exactly one.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// The turn ended in a regular way, whatever its text.
    Finished {
        /// The last text of the agent.
        final_text: String,
        /// The usage of the whole execution.
        usage: Usage,
    },
    /// A limit of the agent's own on one turn ended it in the middle. Its last text counts neither
    /// as a promise nor as a failure.
    CutShort {
        /// A description of the limit.
        detail: String,
    },
    /// A rate or usage limit ended the execution.
    Limited {
        /// The end of the limit, if the agent reports it.
        until: Option<Timestamp>,
    },
    /// The context is full.
    OutOfContext,
    /// The model refused the work.
    Refused,
    /// The agent could not work.
    Failed {
        /// The kind of the failure.
        kind: FailureKind,
        /// A description for people.
        detail: String,
    },
    /// Harness stopped the agent.
    Stopped {
        /// The reason.
        by: StoppedBy,
    },
}

/// The reason why an execution failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The program does not exist.
    NotFound,
    /// The agent has no credentials, or they were not accepted.
    Auth,
    /// The program does not accept the arguments or settings that it was started with.
    Config,
    /// The agent cannot reach its model.
    Network,
    /// The program ended with an error, or was killed, but not by harness.
    Crashed,
    /// The adapter cannot parse the output of the agent.
    Protocol,
}

/// The reason why harness stopped an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppedBy {
    /// The user asked for it.
    User,
    /// The time for one execution was up.
    Timeout,
    /// The agent showed no activity for too long.
    Stall,
    /// The budget was spent.
    Budget,
    /// The claim was lost.
    Fenced,
}

/// A context that outlives its execution, so that the next execution can continue in it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptContext {
    /// The agent's own name for the context.
    pub session: String,
    /// The usage in this context so far, as the agent reported it. Some agents count by context and
    /// not by execution.
    pub used: Usage,
}
