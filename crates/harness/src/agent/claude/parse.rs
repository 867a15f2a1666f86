//! One line of Claude Code's `stream-json`, as far as it means something to us.
//!
//! Lines of a kind that is not known are [`Message::Other`]: new versions say new things. Fields that
//! are missing or `null` are no error either.

use std::collections::BTreeMap;

use harness_core::{Timestamp, agent::Usage};
use serde::Deserialize;
use serde_json::Value;

/// Behind the name of a model: asked for with a context of a million tokens.
pub(super) const LARGE: &str = "[1m]";

/// What a line says.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Message {
    /// About the session, the connection, hooks.
    System(System),
    /// A block of what the model says.
    Assistant(Assistant),
    /// What the model is told: answers of tools, mostly.
    User(User),
    /// It wants to know something and waits for the answer.
    ControlRequest(ControlRequest),
    /// How much of a subscription is used.
    RateLimitEvent(RateLimit),
    /// The turn is over.
    Result(Box<Outcome>),
    /// Anything else.
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct System {
    pub(super) subtype: Option<String>,
    pub(super) session_id: Option<String>,
    /// Of `init`.
    pub(super) model: Option<String>,
    /// Of `api_retry`.
    pub(super) error_status: Option<u16>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Assistant {
    pub(super) message: Said,
    /// Said by a helper of its own, in another context.
    pub(super) parent_tool_use_id: Option<String>,
    /// The kind of an error that is shown as if the model had said it.
    pub(super) error: Option<String>,
}

/// One block of a message; the blocks of one message come as lines with the same id.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Said {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) content: Vec<Block>,
    pub(super) usage: Option<Tokens>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Option<Value>,
    },
    ToolResult {
        tool_use_id: String,
        content: Option<Value>,
        is_error: Option<bool>,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    pub(super) message: Heard,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Heard {
    content: Value,
}

impl Heard {
    /// None where there are only words.
    pub(super) fn blocks(self) -> Vec<Block> {
        serde_json::from_value(self.content).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ControlRequest {
    pub(super) request_id: String,
    pub(super) request: Question,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum Question {
    CanUseTool {
        tool_name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct RateLimit {
    pub(super) rate_limit_info: RateLimitInfo,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RateLimitInfo {
    pub(super) status: Option<String>,
    /// Since 1970, in seconds.
    resets_at: Option<i64>,
}

/// No time in seconds is as late as this.
const MILLISECONDS_MIN: i64 = 100_000_000_000;

impl RateLimitInfo {
    /// Some say it in milliseconds.
    pub(super) fn resets_at(&self) -> Option<Timestamp> {
        self.resets_at.map(|time| match time {
            MILLISECONDS_MIN.. => Timestamp::from_seconds(time / 1000),
            _ => Timestamp::from_seconds(time),
        })
    }
}

/// As the API counts them. What was read from or written to its cache is not in `input_tokens`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Tokens {
    pub(super) fn usage(self) -> Usage {
        let parts =
            [self.input_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens];
        let input_tokens = parts.into_iter().flatten().fold(0, u64::saturating_add);
        let output_tokens = self.output_tokens.unwrap_or_default();
        Usage { input_tokens, output_tokens, cost_usd: None }
    }
}

/// The last line of a turn.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Outcome {
    /// `success` also stands beside errors of the API.
    pub(super) subtype: Option<String>,
    pub(super) is_error: Option<bool>,
    pub(super) terminal_reason: Option<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) api_error_status: Option<u16>,
    pub(super) result: Option<String>,
    pub(super) errors: Option<Vec<String>>,
    usage: Option<Tokens>,
    total_cost_usd: Option<f64>,
    #[serde(rename = "modelUsage")]
    model_usage: Option<BTreeMap<String, ModelUsage>>,
    model_usage_since_last_result: Option<BTreeMap<String, ModelUsage>>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    #[serde(rename = "costUSD")]
    cost_usd: Option<f64>,
    context_window: Option<u64>,
}

impl ModelUsage {
    fn usage(self) -> Usage {
        let tokens = Tokens {
            input_tokens: self.input_tokens,
            cache_creation_input_tokens: self.cache_creation_input_tokens,
            cache_read_input_tokens: self.cache_read_input_tokens,
            output_tokens: self.output_tokens,
        };
        Usage { cost_usd: self.cost_usd.filter(is_amount), ..tokens.usage() }
    }
}

impl Outcome {
    /// All that the turn used. The sums by model hold what helpers and summaries used too, which is
    /// not in `usage`; those of the whole session are those of the turn, since each session has one.
    pub(super) fn used(&self) -> Usage {
        let sum = |by_model: &BTreeMap<String, ModelUsage>| {
            by_model.values().fold(Usage::default(), |mut sum, of| {
                sum += of.usage();
                sum
            })
        };
        // That of a turn in which no model was asked is empty; all other sums are the session's.
        if let Some(since) = &self.model_usage_since_last_result {
            return sum(since);
        }
        let mut used = self.model_usage.as_ref().map(sum).unwrap_or_default();
        if used == Usage::default() {
            used = self.usage.unwrap_or_default().usage();
        }
        used.cost_usd = used.cost_usd.or(self.total_cost_usd.filter(is_amount));
        used
    }

    /// Whether the turn came to the end that it was meant to.
    pub(super) fn is_proper(&self) -> bool {
        self.is_error != Some(true) && self.terminal_reason.as_deref() == Some("completed")
    }

    /// How many tokens the context of `model` holds.
    pub(super) fn window(&self, model: &str) -> Option<u64> {
        let by_model = self.model_usage.as_ref()?;
        let large = || by_model.get(&format!("{model}{LARGE}"));
        by_model.get(model).or_else(large)?.context_window
    }

    /// With other words for its own.
    pub(super) fn in_words(mut self, words: impl Fn(&str) -> String) -> Outcome {
        self.result = self.result.map(|text| words(&text));
        for error in self.errors.iter_mut().flatten() {
            *error = words(error);
        }
        self
    }

    /// What it says of its end: the final text, or what went wrong.
    pub(super) fn words(&self) -> String {
        match (&self.result, &self.errors) {
            (Some(text), _) if !text.trim().is_empty() => text.clone(),
            (_, Some(errors)) => errors.join("; "),
            (_, None) => String::new(),
        }
    }
}

fn is_amount(cost: &f64) -> bool {
    cost.is_finite() && *cost >= 0.0
}

/// `None`: this is no line of the protocol.
pub(super) fn parse(line: &[u8]) -> Option<Message> {
    let line = line.trim_ascii();
    // What launchers and wrappers print is told apart without a look at all of it.
    if !line.starts_with(b"{") {
        return None;
    }
    serde_json::from_slice(line).ok()
}
