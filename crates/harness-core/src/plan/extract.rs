//! Finds the plan in a text. It is the first block that matches
//! ```` ```(?:json)?\s*(\{.*?\})\s*``` ````, where the dot matches newlines. Later closing fences are
//! tried if that capture does not parse.
//!
//! Trying one closing fence after the other would be quadratic on hostile text. One parse is enough:
//! a JSON object has one end, so only the closing fence after that end can close a capture that
//! parses. The first opening decides, because a closing fence after a later opening is also after
//! the first one. The expression therefore never matches further on.

use super::{PlanError, json::Json};

const FENCE: &str = "```";

/// Returns the JSON object of the first block in `text`.
pub fn extract(text: &str) -> Result<&str, PlanError> {
    locate(text).map(|(block, _)| block)
}

/// Returns the block and its parsed content, so that it is parsed only once.
pub(super) fn locate(text: &str) -> Result<(&str, Json), PlanError> {
    let body = opening(text).ok_or(PlanError::NoBlock)?;
    let mut documents = serde_json::Deserializer::from_str(body).into_iter::<Json>();
    let problem = match documents.next() {
        Some(Ok(document)) => {
            let (block, after) = body.split_at(documents.byte_offset());
            if skip_space(after).starts_with(FENCE) {
                return Ok((block, document));
            }
            "no closing fence after the end of the object".to_owned()
        }
        // This is the error of the single parse, not that of the first capture. The two differ only
        // if fenced code precedes the mistake, and then only this one points to the mistake.
        Some(Err(error)) => error.to_string(),
        None => return Err(PlanError::NoBlock),
    };
    if has_closing(body) { Err(PlanError::InvalidJson(problem)) } else { Err(PlanError::NoBlock) }
}

/// Returns the text after the first opening fence, from its `{` on.
fn opening(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        let tail = &rest[rest.find(FENCE)?..];
        let inside = &tail[FENCE.len()..];
        let body = skip_space(inside.strip_prefix("json").unwrap_or(inside));
        if body.starts_with('{') {
            return Some(body);
        }
        // Advance by one backtick, not three: in a run of four, the last three may be the fence.
        rest = &tail[1..];
    }
}

/// Returns whether a `}`, optional space and a fence follow. Without them the expression has no
/// match.
fn has_closing(body: &str) -> bool {
    let mut braces = body.match_indices('}');
    braces.any(|(at, _)| skip_space(&body[at + 1..]).starts_with(FENCE))
}

/// Skips what Python's `\s*` matches, which includes U+001C to U+001F.
fn skip_space(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}'))
}
