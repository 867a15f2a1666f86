//! The input of a hook from an agent. Anything that is not an object is treated as empty.

use serde_json::{Map, Value};

/// The limit of a session name. Agents use UUIDs.
const SESSION_BYTES_MAX: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Payload(Map<String, Value>);

impl Payload {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let read = serde_json::from_slice(bytes).or_else(|_| {
            let repaired = with_whole_characters(bytes);
            serde_json::from_slice(&repaired)
        });
        match read {
            Ok(Value::Object(fields)) => Self(fields),
            Ok(_) | Err(_) => Self::default(),
        }
    }

    /// Returns a field that is a text and not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Returns whether a hook has already kept the agent from stopping.
    pub(super) fn is_kept_going(&self) -> bool {
        self.0.get("stop_hook_active") == Some(&Value::Bool(true))
    }

    /// Returns whether this is a compaction, which ends as a subagent without a type.
    pub(super) fn is_compaction(&self) -> bool {
        self.0.get("agent_type").and_then(Value::as_str) == Some("")
    }

    /// Returns a session name that fits on one line.
    pub(super) fn session(&self) -> Option<&str> {
        let fits = |id: &&str| id.len() <= SESSION_BYTES_MAX && !id.contains(char::is_control);
        self.text("session_id").map(str::trim).filter(|id| !id.is_empty()).filter(fits)
    }
}

/// Replaces half characters. JavaScript writes them unchanged when a text was cut in the middle of
/// one, as in `"\ud83d"`, but JSON does not allow them. The rest of the input is still used.
fn with_whole_characters(json: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some((&byte, after)) = rest.split_first() {
        let taken = match (escaped_unit(rest), escaped_unit(rest.get(6..).unwrap_or_default())) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                whole.extend_from_slice(br"\ufffd");
                rest = &rest[6..];
                continue;
            }
            // An escaped backslash begins no other escape.
            _ if byte == b'\\' && !after.is_empty() => 2,
            _ => 1,
        };
        whole.extend_from_slice(&rest[..taken]);
        rest = &rest[taken..];
    }
    whole
}

/// Returns the UTF-16 unit of an escape at the very start.
fn escaped_unit(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(br"\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_does_not_hide_the_rest() {
        for (said, heard) in [
            (r#"{"last":"\ud83d","cwd":"/x"}"#, "\u{fffd}"),
            (r#"{"last":"\ude00!","cwd":"/x"}"#, "\u{fffd}!"),
            (r#"{"last":"\ud83d\ude00\ud83d\\","cwd":"/x"}"#, "\u{1f600}\u{fffd}\\"),
            (r#"{"last":"\\ud83d\ud83d","cwd":"/x"}"#, "\\ud83d\u{fffd}"),
            ("\u{feff}{\"last\":\"a\",\"cwd\":\"/x\"}", "a"),
        ] {
            let payload = Payload::read(said.as_bytes());
            assert_eq!(payload.text("last"), Some(heard), "{said}");
            assert_eq!(payload.text("cwd"), Some("/x"), "{said}");
        }
        assert!(Payload::read(br#"{"last":"\ud8"#).text("last").is_none());
        assert!(Payload::read(br#"{"last":"\"#).text("last").is_none());
    }
}
