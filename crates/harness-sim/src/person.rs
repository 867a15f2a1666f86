//! The edits of a person between two transactions.

use serde_json::Value;

use crate::{history::Note, random::Random, workers::Ids};
use harness_core::TaskId;

pub(crate) struct Edited {
    pub(crate) what: String,
    pub(crate) text: String,
    pub(crate) note: Option<Note>,
}

/// Adds a field that we do not know, or changes a title.
pub(crate) fn edit(bytes: &[u8], ids: &mut Ids, random: &mut Random) -> Option<Edited> {
    let mut root: Value = serde_json::from_slice(bytes).ok()?;
    let tasks = root.get_mut("tasks")?.as_array_mut()?;
    let at = random.below(tasks.len());
    let task = tasks.get_mut(at).and_then(Value::as_object_mut);
    let key = format!("x_{}", ids.number());
    let (what, note) = match (task, random.below(3)) {
        (Some(task), 0) => {
            task.insert("title".into(), ids.text("a person's title").into());
            (format!("another title for {}", task["id"]), None)
        }
        (Some(task), 1) => {
            let id = task.get("id").and_then(Value::as_str).and_then(|i| TaskId::parse(i).ok())?;
            task.insert(key.clone(), serde_json::json!({ "kept": ["as", 1, null] }));
            (format!("{key} for {id}"), Some(Note { task: Some(id), key }))
        }
        _ => {
            root.as_object_mut()?.insert(key.clone(), "kept".into());
            (format!("{key} at the top"), Some(Note { task: None, key }))
        }
    };
    let text = if random.percent(50) {
        root.to_string()
    } else {
        serde_json::to_string_pretty(&root).ok()?
    };
    Some(Edited { what, text, note })
}

/// Returns bytes that are not JSON.
pub(crate) fn garbage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => Vec::new(),
        1 => b"<<<<<<< HEAD\n".to_vec(),
        2 => vec![0; bytes.len()],
        // At least the last brace is missing.
        _ => bytes[..random.below(bytes.len().saturating_sub(2))].to_vec(),
    }
}
