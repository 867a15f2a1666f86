//! `harness-tasks.json`, version 2.
//!
//! Reading is tolerant, writing is strict, and unknown fields survive. A [`Document`] keeps the
//! text of every task beside the ledger. The known fields of a changed task are patched into the
//! existing JSON object. The text of everything else is copied unchanged. A write therefore costs
//! the changed tasks and one copy, and it keeps the order of keys and the unknown fields on every
//! level.

mod disk;
mod document;
mod error_text;
mod glance;
#[doc(hidden)]
pub mod journal;
mod news;
mod object;
mod patch;
mod pretty;
mod read;
mod row_text;
mod state;
mod task_json;

#[doc(hidden)]
pub use document::Document;
#[doc(hidden)]
pub use glance::{ClaimGlance, Glance, TaskGlance, glance};
#[doc(hidden)]
pub use news::LedgerNews;
pub use read::{FormatError, read, read_ledger};
#[doc(hidden)]
pub use read::{Unreadable, read_owned};
#[doc(hidden)]
pub use state::{Key, Seal, State};

/// Valid JSON with an indent of two spaces; strings and numbers are copied to the letter.
#[doc(hidden)]
pub fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    pretty::pretty(json, 0, &mut out);
    out
}

/// Returns a task as an object of the file, with all published fields.
#[doc(hidden)]
pub fn task_object(task: &crate::Task) -> serde_json::Map<String, serde_json::Value> {
    let object = patch::task(object::Object::default(), task);
    object
        .iter()
        .filter_map(|(key, json)| Some((key.to_owned(), serde_json::from_str(json).ok()?)))
        .collect()
}

/// The file name that people and errors use.
pub const FILE_NAME: &str = "harness-tasks.json";

#[cfg(test)]
mod tests;
