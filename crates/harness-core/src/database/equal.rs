//! Whether two texts are the same ledger.

use serde_json::Value;

/// The fields of the root object that belong to a place and not to the ledger: how often it was written
/// there, its seal, and the end of the log.
const OF_A_PLACE: [&str; 4] = ["revision", "seal", "log_tail", "log_at"];

/// Returns whether two texts in the form of the file are the same ledger, wherever they are kept.
pub fn same_ledger(one: &str, other: &str) -> bool {
    matches!((content(one), content(other)), (Some(one), Some(other)) if one == other)
}

fn content(text: &str) -> Option<Value> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    let fields = value.as_object_mut()?;
    OF_A_PLACE.iter().for_each(|field| _ = fields.remove(*field));
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_place_is_not_compared() {
        let one = r#"{"version": 2, "revision": 3, "seal": "x", "tasks": [{"id": "a"}]}"#;
        let other = r#"{"version":2,"tasks":[{"id":"a"}],"log_tail":["l"],"log_at":1}"#;
        assert!(same_ledger(one, other));
        assert!(!same_ledger(one, r#"{"version":2,"tasks":[{"id":"b"}]}"#));
        assert!(!same_ledger("{", "{"), "what is no JSON is no ledger");
    }
}
