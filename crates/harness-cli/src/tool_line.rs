//! A tool call of an agent on one line: the name of the tool, and the most informative part of its
//! input.

use harness::view::tool_text;
use serde_json::Value;

use crate::paint::one_line;

/// The limit of an input. Longer ones are cut.
const CHARS_MAX: usize = 160;

/// Returns a line such as `Bash: cargo test`, or the name alone for a tool without input.
pub(crate) fn tool_line(name: &str, input: Option<&Value>) -> String {
    cut(&one_line(&tool_text(name, input)), CHARS_MAX)
}

/// Returns at most this many characters. The last one is an ellipsis if something is missing.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_field_that_tells_most_is_shown() {
        for (input, expected) in [
            (json!({ "description": "run tests", "command": "cargo test\n" }), "T: cargo test"),
            (json!({ "file_path": "src/a.rs", "content": "x" }), "T: src/a.rs"),
            (json!({ "command": ["sh", "-c", "true"] }), "T: sh -c true"),
            (json!({ "n": 1 }), "T: {\"n\":1}"),
            (json!({}), "T"),
            (json!("a\nb"), "T: a\\nb"),
        ] {
            assert_eq!(tool_line("T", Some(&input)), expected);
        }
        assert_eq!(tool_line("T", None), "T");
        let long = tool_line("T", Some(&json!("x".repeat(500))));
        assert!(long.chars().count() == CHARS_MAX && long.ends_with('…'), "{long}");
    }
}
