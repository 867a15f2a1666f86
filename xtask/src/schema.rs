//! The JSON schemas in `schema/`. That of harness.toml comes from the program; those of the other
//! formats are made from the tables of PROTOCOL.md and the types below.

mod events;
mod ledger;
mod node;
mod plan;
mod receipt;

use serde_json::{Value, json};

use crate::page::Page;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the name and the text of each schema that is made from PROTOCOL.md.
pub(crate) fn of_protocol(protocol: &Page) -> Result<Vec<(&'static str, String)>, String> {
    let all = [
        ("ledger.schema.json", ledger::schema(protocol)?),
        ("plan.schema.json", plan::schema()?),
        ("events.schema.json", events::schema(protocol)?),
        ("receipt.schema.json", receipt::schema(protocol)?),
    ];
    all.into_iter().map(|(name, schema)| Ok((name, text(&schema)?))).collect()
}

fn text(schema: &Value) -> Result<String, String> {
    serde_json::to_string_pretty(schema).map(|text| text + "\n").map_err(|why| why.to_string())
}

/// Puts the title and the dialect before the schema itself.
fn document(title: &str, description: &str, schema: Value) -> Value {
    let mut document = json!({ "$schema": DIALECT, "title": title, "description": description });
    if let (Value::Object(document), Value::Object(schema)) = (&mut document, schema) {
        document.extend(schema);
    }
    document
}
