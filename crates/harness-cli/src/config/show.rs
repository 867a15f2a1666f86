//! `harness config`: every value with its origin.

use serde_json::{Map, Value, json};

use super::{key, layers::Loaded, origin::Origin};
use crate::{
    failure::{Failure, Result},
    render::{Out, Table},
};

/// One line of the output.
#[derive(Debug)]
pub(crate) struct Entry {
    key: String,
    value: Value,
    origin: Origin,
}

/// Returns the values of `only` (a key or a table), or all of them, in the order of the
/// documentation.
pub(crate) fn entries(loaded: &Loaded, only: Option<&str>) -> Result<Vec<Entry>> {
    let values = serde_json::to_value(&loaded.config)?;
    let chosen = |key: &str| {
        only.is_none_or(|only| {
            key.strip_prefix(only).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let mut entries = Vec::new();
    for (key, value) in key::leaves(&values).into_iter().filter(|(key, _)| chosen(key)) {
        let origin = loaded.origins.get(&key).cloned();
        // Only the keys of an agent that were set are shown.
        if origin.is_none() && key.starts_with("agents.") {
            continue;
        }
        let origin = origin.unwrap_or(Origin::BuiltIn);
        entries.push(Entry { key, value: value.clone(), origin });
    }
    match only {
        Some(given) if entries.is_empty() && given != "agents" => {
            let failure = Failure::error(format!("there is no key `{given}` in the configuration"));
            Err(match key::nearest(given) {
                Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
                None => failure.hint("`harness config` lists all keys"),
            })
        }
        _ => Ok(entries),
    }
}

pub(crate) fn document(entries: &[Entry]) -> Value {
    let values = entries.iter().map(|entry| {
        let shown = json!({ "value": entry.value, "origin": entry.origin.document() });
        (entry.key.clone(), shown)
    });
    json!({ "values": Map::from_iter(values) })
}

pub(crate) fn print(out: &mut Out, entries: &[Entry]) -> Result<()> {
    let mut table = Table::default();
    for entry in entries {
        let value = match &entry.value {
            Value::Null => "-".to_owned(),
            value => value.to_string(),
        };
        table.row([entry.key.clone(), value, entry.origin.to_string()]);
    }
    out.table(&table)
}
