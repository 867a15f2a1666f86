//! Events, from their table in PROTOCOL.md: type, fields with their types, meaning.

use serde_json::{Map, Value, json};

use super::{document, node::shape};
use crate::page::Page;

pub(super) fn schema(protocol: &Page) -> Result<Value, String> {
    let mut kinds = Vec::new();
    for row in protocol.rows("### Events") {
        let [kind, fields, meaning] = row.as_slice() else {
            return Err(format!("three columns, not {row:?}"));
        };
        kinds.push(event(kind.trim_matches('`'), fields, meaning)?);
    }
    // Facts of the ledger, and events that programs define, have fields of their own.
    let known: Vec<Value> =
        kinds.iter().map(|kind| kind["properties"]["type"]["const"].clone()).collect();
    kinds.push(json!({
        "description": "A fact of the ledger (`ledger:…`), or an event that a program defined",
        "type": "object",
        "properties": { "type": { "type": "string", "not": { "enum": known } } },
        "required": ["type"],
    }));
    let schema = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string", "description": "A UUID of version 7" },
            "timestamp": { "type": "string", "format": "date-time" },
            "context": {
                "type": "object",
                "description": "The place in the run",
                "properties": {
                    "sessionId": { "type": "string" },
                    "phase": { "type": "object" },
                    "task": { "type": "object" },
                    "agent": { "type": "object" },
                    "worker": { "type": "string" },
                },
                "required": ["sessionId"],
            },
            "event": { "oneOf": kinds },
        },
        "required": ["id", "timestamp", "context", "event"],
    });
    let about = "One line of the events of a run, as `subscribe` sends it and as it is kept";
    Ok(document("harness event", about, schema))
}

/// Returns the schema of one kind. A field without a value is absent: its type ends in `?`.
fn event(kind: &str, fields: &str, meaning: &str) -> Result<Value, String> {
    let mut properties = Map::new();
    let mut required = vec!["type"];
    properties.insert("type".into(), json!({ "const": kind }));
    for field in fields.split(", ").filter(|field| !field.is_empty()) {
        let named = field.strip_prefix('`').and_then(|rest| rest.split_once("` "));
        let (name, of) = named.ok_or(format!("{kind}: {field:?} is not a field and its type"))?;
        if !of.ends_with('?') {
            required.push(name);
        }
        let schema = shape(of.trim_end_matches('?')).map_err(|why| format!("{kind}: {why}"))?;
        properties.insert(name.to_owned(), Value::Object(schema));
    }
    Ok(json!({
        "description": meaning,
        "type": "object",
        "properties": properties,
        "required": required,
    }))
}
