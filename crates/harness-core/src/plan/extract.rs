//! Finds the plan in a text: the first block that matches ```` ```(?:json)?\s*(\{.*?\})\s*``` ````
//! with the dot matching newlines, and later closing fences where that capture does not parse.
//!
//! That reads like trying one closing fence after the other, which is quadratic on hostile text. It
//! is one parse: a JSON object has one end, so of all closing fences only the one that follows that
//! end can close a capture that parses. And the first opening decides: a closing fence behind a
//! later opening is behind the first one too, so the expression never matches further on.

use super::{PlanError, json::Json};

const FENCE: &str = "```";

/// The JSON object of the first block in `text`.
pub fn extract(text: &str) -> Result<&str, PlanError> {
    locate(text).map(|(block, _)| block)
}

/// The block and what it holds, so that it is parsed once.
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
        // The error of the one parse rather than that of the first capture: they are the same
        // unless fenced code stands before the mistake, and then only this one points at it.
        Some(Err(error)) => error.to_string(),
        None => return Err(PlanError::NoBlock),
    };
    if has_closing(body) { Err(PlanError::InvalidJson(problem)) } else { Err(PlanError::NoBlock) }
}

/// What follows the first opening fence, from its `{` on.
fn opening(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        let tail = &rest[rest.find(FENCE)?..];
        let inside = &tail[FENCE.len()..];
        let body = skip_space(inside.strip_prefix("json").unwrap_or(inside));
        if body.starts_with('{') {
            return Some(body);
        }
        // One backtick on, not three: in a run of four, the last three may be the fence.
        rest = &tail[1..];
    }
}

/// Whether some `}`, optional space and a fence follow; without them the expression has no match.
fn has_closing(body: &str) -> bool {
    let mut braces = body.match_indices('}');
    braces.any(|(at, _)| skip_space(&body[at + 1..]).starts_with(FENCE))
}

/// `\s*` as the seed's Python has it, which counts U+001C to U+001F as space.
fn skip_space(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}'))
}
