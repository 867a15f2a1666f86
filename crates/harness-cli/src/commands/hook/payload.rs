//! What an agent sends to a hook. Anything that is not an object says nothing.

use serde_json::{Map, Value};

/// A longer name of a session is none; agents give UUIDs.
const SESSION_BYTES_MAX: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Payload(Map<String, Value>);

impl Payload {
    pub(super) fn read(bytes: &[u8]) -> Self {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Self(fields),
            Ok(_) | Err(_) => Self::default(),
        }
    }

    /// A field that is text, and not an empty one.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// The agent was kept going by a hook already.
    pub(super) fn is_kept_going(&self) -> bool {
        self.0.get("stop_hook_active") == Some(&Value::Bool(true))
    }

    /// Compaction ends as a subagent without a type.
    pub(super) fn is_compaction(&self) -> bool {
        self.0.get("agent_type").and_then(Value::as_str) == Some("")
    }

    /// A name that fits on a line of its own.
    pub(super) fn session(&self) -> Option<&str> {
        let fits = |id: &&str| id.len() <= SESSION_BYTES_MAX && !id.contains(char::is_control);
        self.text("session_id").map(str::trim).filter(|id| !id.is_empty()).filter(fits)
    }
}
