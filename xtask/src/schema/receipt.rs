//! Receipts, from their table in PROTOCOL.md: field, type, meaning.

use serde_json::Value;

use super::{
    document,
    node::{Field, Others, Presence, object},
};
use crate::page::Page;

/// Fields that a receipt has only if there is something to say.
const SOMETIMES: [&str; 2] = ["uncommitted", "flags"];

pub(super) fn schema(protocol: &Page) -> Result<Value, String> {
    let rows = protocol.rows("### Fields of a receipt");
    let mut fields = Vec::new();
    for row in &rows {
        let [name, kind, meaning] = row.as_slice() else {
            return Err(format!("three columns, not {row:?}"));
        };
        let path = name.trim_matches('`').to_owned();
        let presence = match SOMETIMES.contains(&path.as_str()) {
            true => Presence::Optional,
            false => Presence::Required,
        };
        fields.push(Field { path, kind, presence, meaning: meaning.clone() });
    }
    let schema = object(&fields, Others::Allowed)?;
    Ok(document("harness receipt", "The evidence of one completion", schema))
}
