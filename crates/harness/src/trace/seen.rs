//! One event in the form in which it is recorded.

use serde_json::Value;

/// One event as it is recorded.
pub(super) struct Seen<'a> {
    pub(super) id: &'a str,
    pub(super) at_ms: i64,
    pub(super) event: &'a Value,
    pub(super) context: &'a Value,
}

impl<'a> Seen<'a> {
    pub(super) fn of(envelope: &'a Value) -> Option<Self> {
        let time: jiff::Timestamp = envelope["timestamp"].as_str()?.parse().ok()?;
        Some(Self {
            id: envelope["id"].as_str()?,
            at_ms: time.as_millisecond(),
            event: &envelope["event"],
            context: &envelope["context"],
        })
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.event[name].as_str()
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.event[name].as_u64()
    }

    pub(super) fn worker(&self) -> &'a str {
        self.context["worker"].as_str().unwrap_or_default()
    }

    /// Returns the category of a failure: `[TEST_FAIL] …`. The text after it is not for others.
    pub(super) fn category(&self) -> String {
        let text = self.text("error").unwrap_or_default();
        let inside = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        inside.map_or("failed", |(category, _)| category).to_owned()
    }
}
