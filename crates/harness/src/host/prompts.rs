//! The names of questions outside of this process: `prompt-0-1f3a9c02`. The last part is random for
//! each process, so that only a process that has seen a question can answer it.

use std::sync::OnceLock;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::event::{Envelope, PromptId};

/// Returns the random key, which is created once per process.
fn key() -> &'static [u8; 16] {
    static KEY: OnceLock<[u8; 16]> = OnceLock::new();
    KEY.get_or_init(|| uuid::Uuid::now_v7().into_bytes())
}

/// Returns the name of a question on the socket and in commands.
pub fn name(id: PromptId) -> String {
    let digest = Sha256::new().chain_update(key()).chain_update(id.0.to_le_bytes()).finalize();
    let [a, b, c, d] = [digest[0], digest[1], digest[2], digest[3]];
    format!("{id}-{a:02x}{b:02x}{c:02x}{d:02x}")
}

/// Returns the question of this name; `None` if it is invalid.
pub fn parse(text: &str) -> Option<PromptId> {
    let (id, _) = text.rsplit_once('-')?;
    PromptId::parse(id).filter(|id| name(*id) == text)
}

/// Returns an event as a line of a subscription has it: with the names of questions.
pub fn line(envelope: &Envelope) -> Value {
    let mut line = json!(envelope);
    rename(&mut line);
    line
}

/// Replaces the id in an outgoing event.
fn rename(envelope: &mut Value) {
    let event = &mut envelope["event"];
    if !matches!(event["type"].as_str(), Some("session:prompt" | "session:reply")) {
        return;
    }
    if let Some(id) = event["promptId"].as_str().and_then(PromptId::parse) {
        event["promptId"] = name(id).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_found_by_its_whole_name_only() {
        let first = name(PromptId(0));
        assert!(first.starts_with("prompt-0-") && first.len() == "prompt-0-".len() + 8, "{first}");
        assert_eq!(parse(&first), Some(PromptId(0)));
        let suffix = first.rsplit_once('-').unwrap().1;
        for other in
            ["prompt-0", "prompt-0-", "prompt-0-00000000x", "", &format!("prompt-1-{suffix}")]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
