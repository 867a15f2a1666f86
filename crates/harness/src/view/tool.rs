//! A tool call of an agent as text: the name of the tool, and the most informative part of its input.

use serde_json::Value;

/// The most informative fields of an input, best first.
const TELLING: [&str; 9] =
    ["command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt"];

/// Returns a text such as `Bash: cargo test`, or the name alone for a tool without input. It is the
/// text of an agent, and may contain control characters.
pub fn tool_text(name: &str, input: Option<&Value>) -> String {
    let input = input.map(telling).unwrap_or_default();
    let input = input.trim();
    if input.is_empty() { name.to_owned() } else { format!("{name}: {input}") }
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
