//! A tool call of an agent on one line: the name of the tool, and the most informative part of its
//! input.

use serde_json::Value;

use crate::paint::one_line;

/// The most informative fields of an input, best first.
const TELLING: [&str; 9] =
    ["command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt"];
/// The limit of an input. Longer ones are cut.
const CHARS_MAX: usize = 160;

/// Returns a line such as `Bash: cargo test`, or the name alone for a tool without input.
pub(crate) fn tool_line(name: &str, input: Option<&Value>) -> String {
    let input = input.map(telling).unwrap_or_default();
    let input = input.trim();
    let line = if input.is_empty() { name.to_owned() } else { format!("{name}: {input}") };
    cut(&one_line(&line), CHARS_MAX)
}

/// Returns at most this many characters. The last one is an ellipsis if something is missing.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

fn telling(input: &Value) -> String {
    match input {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let told = TELLING.iter().find_map(|name| fields.get(*name));
            match told.or_else(|| fields.values().find(|value| value.is_string())) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Array(words)) => {
                    let words = words.iter().map(|word| word.as_str().unwrap_or("…"));
                    words.collect::<Vec<_>>().join(" ")
                }
                Some(other) => other.to_string(),
                None if fields.is_empty() => String::new(),
                None => input.to_string(),
            }
        }
        Value::Array(_) | Value::Bool(_) | Value::Number(_) => input.to_string(),
    }
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
