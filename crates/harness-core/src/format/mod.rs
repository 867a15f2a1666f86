//! `harness-tasks.json`, version 2.
//!
//! Reading is tolerant, writing is strict, and what we do not know survives: a [`Document`] keeps
//! the text of every task beside the ledger. A task that changed has its known fields patched into
//! the JSON object that was there; the text of everything else is copied as it is. So a write costs
//! what changed and one copy, and the order of keys and unknown fields on every level stay.

mod disk;
mod document;
mod error_text;
mod glance;
#[doc(hidden)]
pub mod journal;
mod object;
mod patch;
mod pretty;
mod read;
mod state;

#[doc(hidden)]
pub use document::Document;
#[doc(hidden)]
pub use glance::{ClaimGlance, Glance, TaskGlance, glance};
pub use read::{FormatError, read, read_ledger};
#[doc(hidden)]
pub use state::{Key, Seal, State};

/// Valid JSON with an indent of two spaces; strings and numbers are copied to the letter.
#[doc(hidden)]
pub fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    pretty::pretty(json, 0, &mut out);
    out
}

/// A task as an object of the file, all published fields included.
#[doc(hidden)]
pub fn task_object(task: &crate::Task) -> serde_json::Map<String, serde_json::Value> {
    let object = patch::task(object::Object::default(), task);
    object
        .iter()
        .filter_map(|(key, json)| Some((key.to_owned(), serde_json::from_str(json).ok()?)))
        .collect()
}

/// The name that people and errors use.
pub const FILE_NAME: &str = "harness-tasks.json";

#[cfg(test)]
mod tests;
