//! Parses one line of Claude Code's `stream-json`, as far as it is used.
//!
//! Lines of an unknown kind are [`Message::Other`], because new versions add kinds. Missing or
//! `null` fields are not an error either.

use std::collections::BTreeMap;

use harness_core::{Timestamp, agent::Usage};
use serde::Deserialize;
use serde_json::Value;

/// The suffix of a model that is requested with a context of a million tokens.
pub(super) const LARGE: &str = "[1m]";

/// The content of a line.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Message {
    /// A report about the session, the connection or hooks.
    System(System),
    /// A block of the model's message.
    Assistant(Assistant),
    /// A message to the model, usually results of tools.
    User(User),
    /// A question that waits for an answer.
    ControlRequest(ControlRequest),
    /// The used part of a subscription.
    RateLimitEvent(RateLimit),
    /// The turn is over.
    Result(Box<Outcome>),
    /// Any other line.
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct System {
    pub(super) subtype: Option<String>,
    pub(super) session_id: Option<String>,
    /// The model, in `init`.
    pub(super) model: Option<String>,
    /// The status, in `api_retry`.
    pub(super) error_status: Option<u16>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Assistant {
    pub(super) message: Said,
    /// The call of a helper that sent it, which has another context.
    pub(super) parent_tool_use_id: Option<String>,
    /// The kind of an error that is shown in place of a message of the model.
    pub(super) error: Option<String>,
}

/// One block of a message. The blocks of one message come as lines with the same id.
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
    pub(super) message: UserContent,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct UserContent {
    content: Value,
}

impl UserContent {
    /// Returns the blocks; none if there is only text.
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
    /// The time in seconds since 1970.
    resets_at: Option<i64>,
}

/// A value above any time in seconds.
const MILLISECONDS_MIN: i64 = 100_000_000_000;

impl RateLimitInfo {
    /// Returns the time. Some versions report it in milliseconds.
    pub(super) fn resets_at(&self) -> Option<Timestamp> {
        self.resets_at.map(|time| match time {
            MILLISECONDS_MIN.. => Timestamp::from_seconds(time / 1000),
            _ => Timestamp::from_seconds(time),
        })
    }
}

/// The counts of the API. `input_tokens` does not include tokens read from or written to its cache.
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
    /// The subtype. `success` also occurs with errors of the API.
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
    /// Returns the usage of the turn. The sums by model include helpers and summaries, which
    /// `usage` does not. The sums of the whole session are those of the turn, because each session
    /// has one.
    pub(super) fn used(&self) -> Usage {
        let sum = |by_model: &BTreeMap<String, ModelUsage>| {
            by_model.values().fold(Usage::default(), |mut sum, of| {
                sum += of.usage();
                sum
            })
        };
        // It is empty for a turn in which no model was asked. All other sums are those of the
        // session.
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

    /// Returns whether the turn ended in a regular way.
    pub(super) fn is_proper(&self) -> bool {
        self.is_error != Some(true) && self.terminal_reason.as_deref() == Some("completed")
    }

    /// Returns the size of the context of `model` in tokens.
    pub(super) fn window(&self, model: &str) -> Option<u64> {
        let by_model = self.model_usage.as_ref()?;
        let large = || by_model.get(&format!("{model}{LARGE}"));
        by_model.get(model).or_else(large)?.context_window
    }

    /// Replaces its texts by the results of `words`.
    pub(super) fn in_words(mut self, words: impl Fn(&str) -> String) -> Outcome {
        self.result = self.result.map(|text| words(&text));
        for error in self.errors.iter_mut().flatten() {
            *error = words(error);
        }
        self
    }

    /// Returns the text of its end: the final text, or the errors.
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

/// Parses a line; `None` if it does not belong to the protocol.
pub(super) fn parse(line: &[u8]) -> Option<Message> {
    let line = line.trim_ascii();
    // Output of launchers and wrappers is recognized without reading all of it.
    if !line.starts_with(b"{") {
        return None;
    }
    serde_json::from_slice(line).ok()
}
