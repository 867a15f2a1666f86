//! Values that come as plain text: variables and flags.

use serde::Deserialize;
use toml::{Table, Value};

use super::schema::Config;

/// Returns the value of `key` that `text` represents. Text has no type, so it is read as the key
/// requires: literally, as a TOML value, as a yes or no, or as a list with commas.
pub(super) fn value(key: &str, text: &str) -> Result<Value, String> {
    let as_it_is = Value::String(text.to_owned());
    let wrong = match accepted(key, &as_it_is) {
        Ok(()) => return Ok(as_it_is),
        Err(wrong) => wrong,
    };
    let literal = literal(text);
    let wrong = match literal.as_ref().map(|literal| accepted(key, literal)) {
        Some(Ok(())) => return literal.ok_or(wrong),
        // The error about the number 7 says more than the error that "7" is not a number.
        Some(Err(wrong)) => wrong,
        None => wrong,
    };
    let switch = match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "on" => Some(Value::Boolean(true)),
        "0" | "no" | "off" => Some(Value::Boolean(false)),
        _ => None,
    };
    let items = text.split(',').map(|item| Value::String(item.trim().to_owned()));
    let list = Value::Array(items.collect());
    switch.into_iter().chain([list]).find(|value| accepted(key, value).is_ok()).ok_or(wrong)
}

fn literal(text: &str) -> Option<Value> {
    text.parse().ok()
}

fn accepted(key: &str, value: &Value) -> Result<(), String> {
    let alone = nest(key, value.clone());
    Config::deserialize(Value::Table(alone)).map(drop).map_err(|why| plain_words(why.message()))
}

/// Returns the tables that contain a value under a key such as `limits.max_cost`.
pub(super) fn nest(key: &str, value: Value) -> Table {
    let (table, value) = match key.split_once('.') {
        Some((table, rest)) => (table, Value::Table(nest(rest, value))),
        None => (key, value),
    };
    Table::from_iter([(table.to_owned(), value)])
}

/// Rewrites serde's message about a value without the names of Rust's types.
pub(super) fn plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number that is not negative"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected a list"),
        ("expected a string", "expected text in quotes"),
    ];
    let line = message.lines().next().unwrap_or_default();
    let found = WORDS.iter().find(|(rust, _)| line.ends_with(rust));
    found.map_or_else(|| line.to_owned(), |(rust, plain)| line.replace(rust, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_what_the_key_takes() {
        let read = |key, text| value(key, text).map(|value| value.to_string());
        assert_eq!(read("agent", "true"), Ok("\"true\"".into()));
        assert_eq!(read("limits.max_iterations", "5"), Ok("5".into()));
        assert_eq!(read("limits.max_cost", "5"), Ok("5".into()));
        assert_eq!(read("require_validation", "true"), Ok("true".into()));
        assert_eq!(read("require_validation", "1"), Ok("true".into()));
        assert_eq!(read("protected", "a, b"), Ok("[\"a\", \"b\"]".into()));
        assert_eq!(read("protected", "[\"a,b\"]"), Ok("[\"a,b\"]".into()));
        assert_eq!(read("limits.max_duration", "8h"), Ok("\"8h\"".into()));
    }

    #[test]
    fn what_is_wrong_is_said_in_plain_words() {
        let wrong = |key, text| value(key, text).unwrap_err();
        assert_eq!(
            wrong("limits.max_iterations", "many"),
            "invalid type: string \"many\", expected a whole number from 0 to 4294967295"
        );
        assert_eq!(
            wrong("context_threshold", "7.5"),
            "invalid value: floating point `7.5`, expected a number above 0, up to 1"
        );
        assert_eq!(
            wrong("promise_match", "loose"),
            "unknown variant `loose`, expected one of `line`, `token`, `tag`"
        );
        assert!(wrong("limits.max_duration", "90x").contains("expected a duration such as"));
    }
}
