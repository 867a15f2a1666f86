//! The handoff: the notes that an agent leaves in `state/handoff.json` for the next context.
//!
//! The notes are data from an agent. They are shown to the next agent and decide nothing, so
//! reading them never fails. Invalid parts are left out and reported as warnings.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::quote::{head, one_line, plain};

/// The path of the file, relative to the work tree of the agent.
pub const PATH: &str = "state/handoff.json";
/// A larger file is not read at all.
pub const BYTES_MAX: usize = 64 * 1024;

/// The limit of `phase`, of `next_step` and of each entry of `completed`.
const LINE_BYTES: usize = 1024;
const NOTES_BYTES: usize = 8 * 1024;
const PATH_BYTES: usize = 512;
const COMPLETED_MAX: usize = 100;
const FILES_MAX: usize = 50;
/// A file can contain as many errors as entries. More warnings than this help nobody.
const WARNINGS_MAX: usize = 10;

/// The notes of the last context for the next one. Serialized, they have the form of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Handoff {
    /// The current phase of the work.
    pub phase: Option<String>,
    /// The finished steps, oldest first.
    pub completed: Vec<String>,
    /// The step that comes next.
    pub next_step: Option<String>,
    /// Files to read first, relative to the work tree and inside it.
    pub critical_files: Vec<String>,
    /// Any other notes. They may have several lines.
    pub memory_notes: Option<String>,
}

/// The result of reading a handoff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Read {
    /// The valid parts; `None` if the file is not a JSON object.
    pub handoff: Option<Handoff>,
    /// One fragment for each invalid part. Each names the file.
    pub warnings: Vec<String>,
}

/// Reads the content of `state/handoff.json`. A caller that reads the file needs at most
/// [`BYTES_MAX`] + 1 bytes of it.
pub fn read(bytes: &[u8]) -> Read {
    if bytes.len() > BYTES_MAX {
        return Read::not(format!("{PATH} has more than {BYTES_MAX} bytes, so it is not read"));
    }
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let fields = match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => fields,
        Ok(other) => return Read::not(format!("{PATH} is {}, not an object", name_of(&other))),
        Err(why) => return Read::not(format!("{PATH} is not JSON: {why}")),
    };
    let mut reader = Reader { fields, missing: Vec::new(), warnings: Vec::new() };
    let handoff = Handoff {
        phase: reader.line("phase"),
        completed: reader.completed(),
        next_step: reader.line("next_step"),
        critical_files: reader.files(),
        memory_notes: reader.notes(),
    };
    Read { handoff: Some(handoff), warnings: reader.into_warnings() }
}

impl Read {
    fn not(why: String) -> Self {
        Self { handoff: None, warnings: vec![why] }
    }
}

struct Reader {
    fields: Map<String, Value>,
    missing: Vec<&'static str>,
    warnings: Vec<String>,
}

impl Reader {
    /// A `null` is treated as a missing field.
    fn take(&mut self, key: &'static str) -> Option<Value> {
        let found = self.fields.remove(key).filter(|value| !value.is_null());
        if found.is_none() {
            self.missing.push(key);
        }
        found
    }

    fn warn(&mut self, key: &str, what: impl std::fmt::Display) {
        self.warnings.push(format!("{PATH}: `{key}` {what}"));
    }

    fn line(&mut self, key: &'static str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => self.cut(key, &one_line(&text), LINE_BYTES),
            other => {
                self.warn(key, format_args!("is {}, not a text", name_of(&other)));
                None
            }
        }
    }

    fn cut(&mut self, key: &str, text: &str, bytes: usize) -> Option<String> {
        if text.len() > bytes {
            self.warn(key, format_args!("is cut to {bytes} bytes"));
        }
        Some(head(text, bytes)).filter(|text| !text.is_empty())
    }

    /// Returns the texts of a list. A single text is a list of one.
    fn texts(&mut self, key: &'static str) -> Vec<String> {
        let items = match self.take(key) {
            None => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(Value::String(text)) => vec![Value::String(text)],
            Some(other) => {
                self.warn(key, format_args!("is {}, not a list of texts", name_of(&other)));
                return Vec::new();
            }
        };
        let mut texts = Vec::new();
        for item in items {
            match item {
                Value::String(text) => texts.push(text),
                other => self.warn(key, format_args!("has {} among its texts", name_of(&other))),
            }
        }
        texts
    }

    fn completed(&mut self) -> Vec<String> {
        let key = "completed";
        let texts = self.texts(key);
        let lines = texts.iter().filter_map(|text| self.cut(key, &one_line(text), LINE_BYTES));
        let mut lines: Vec<_> = lines.collect();
        if lines.len() > COMPLETED_MAX {
            // The latest entries describe best where the work is, so the oldest are dropped.
            lines.drain(..lines.len() - COMPLETED_MAX);
            self.warn(key, format_args!("is cut to its last {COMPLETED_MAX} entries"));
        }
        lines
    }

    fn files(&mut self) -> Vec<String> {
        let key = "critical_files";
        let mut files = Vec::new();
        for path in self.texts(key) {
            match below_the_workspace(&path) {
                Ok(path) => files.push(path.to_owned()),
                Err(why) => self.warn(key, format_args!("names {:?}, {why}", shown(&path))),
            }
        }
        if files.len() > FILES_MAX {
            files.truncate(FILES_MAX);
            self.warn(key, format_args!("is cut to its first {FILES_MAX} entries"));
        }
        files
    }

    /// Accepts one text or a list of texts.
    fn notes(&mut self) -> Option<String> {
        let key = "memory_notes";
        let notes = plain(&self.texts(key).join("\n"));
        self.cut(key, notes.trim(), NOTES_BYTES)
    }

    fn into_warnings(mut self) -> Vec<String> {
        if !self.missing.is_empty() {
            let missing: Vec<_> = self.missing.iter().map(|key| format!("`{key}`")).collect();
            self.warnings.insert(0, format!("{PATH} has no {}", missing.join(", ")));
        }
        let more = self.warnings.len().saturating_sub(WARNINGS_MAX);
        if more > 0 {
            self.warnings.truncate(WARNINGS_MAX);
            self.warnings.push(format!("{PATH}: {more} more problems"));
        }
        self.warnings
    }
}

fn shown(path: &str) -> String {
    head(&one_line(path), 80)
}

/// Returns the trimmed path, or the reason why it is not passed on. This function does not know
/// whether the file exists or where its links lead. Nothing is opened because of it.
fn below_the_workspace(path: &str) -> Result<&str, &'static str> {
    let path = path.trim();
    if path.is_empty() {
        Err("which is empty")
    } else if plain(path) != path || path.contains(['\n', '\t']) {
        Err("which has control characters")
    } else if path.starts_with(['/', '~']) || path.split('/').any(|part| part == "..") {
        Err("which is outside the workspace")
    } else if path.len() > PATH_BYTES {
        Err("which is too long for a path")
    } else {
        Ok(path)
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl Handoff {
    /// Returns whether all fields are empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the block for the next prompt, or an empty text if there are no notes. The block is
    /// the agent's text, so a prompt must quote it.
    pub fn resumed_state(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let mut block = String::from("[RESUMED STATE]\n");
        let mut line = |name: &str, text: &str| {
            if !text.is_empty() {
                block += &format!("{name}: {text}\n");
            }
        };
        line("Phase", self.phase.as_deref().unwrap_or_default());
        line("Completed", &self.completed.join("; "));
        line("Next", self.next_step.as_deref().unwrap_or_default());
        line("Ref", &self.critical_files.join(", "));
        line("Notes", self.memory_notes.as_deref().unwrap_or_default());
        block
    }
}

#[cfg(test)]
mod tests;
