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
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read_value(value: &Value) -> Read {
        read(value.to_string().as_bytes())
    }

    fn full() -> Value {
        json!({
            "phase": "Phase 2 - Execution",
            "completed": ["Setup Env", "Research Phase 1"],
            "next_step": "Implement Feature X",
            "critical_files": ["tasks/01_research/overview.md", "src/config.py"],
            "memory_notes": "User prefers concise logs. API key is in env var."
        })
    }

    #[test]
    fn a_handoff_becomes_the_resumed_state() {
        let Read { handoff, warnings } = read_value(&full());
        assert!(warnings.is_empty(), "{warnings:?}");
        insta::assert_snapshot!(handoff.unwrap().resumed_state(), @"
        [RESUMED STATE]
        Phase: Phase 2 - Execution
        Completed: Setup Env; Research Phase 1
        Next: Implement Feature X
        Ref: tasks/01_research/overview.md, src/config.py
        Notes: User prefers concise logs. API key is in env var.
        ");
    }

    #[test]
    fn what_is_not_there_has_no_line() {
        let Read { handoff, warnings } = read_value(&json!({ "next_step": "go on" }));
        assert_eq!(handoff.unwrap().resumed_state(), "[RESUMED STATE]\nNext: go on\n");
        let missing = "state/handoff.json has no `phase`, `completed`, `critical_files`, \
                       `memory_notes`";
        assert_eq!(warnings, [missing]);
        let empty = read_value(&json!({})).handoff.unwrap();
        assert!(empty.is_empty());
        assert_eq!(empty.resumed_state(), "");
    }

    /// Replaces one field. Checks what is left of it, and the warning.
    #[track_caller]
    fn check(key: &str, value: Value, left: &str, warning: &str) {
        let mut document = full();
        document[key] = value;
        let Read { handoff, warnings } = read_value(&document);
        let handoff = handoff.unwrap();
        let state = handoff.resumed_state();
        assert!(left.is_empty() || state.contains(left), "{state}");
        assert_eq!(warnings.join("\n"), warning, "{key}");
        // The other fields are unaffected.
        let others = ["Phase: Phase 2", "Next: Implement", "Notes: User"];
        let expected =
            others.len() - usize::from(["phase", "next_step", "memory_notes"].contains(&key));
        assert!(
            others.iter().filter(|other| state.contains(*other)).count() >= expected,
            "{state}"
        );
    }

    #[test]
    fn what_is_valid_is_kept_and_the_rest_is_named() {
        let file = "state/handoff.json";
        check("phase", json!(2), "", &format!("{file}: `phase` is a number, not a text"));
        check("phase", json!("two\n\u{1b}lines"), "Phase: two lines\n", "");
        check("phase", json!("  "), "", "");
        check("next_step", Value::Null, "", &format!("{file} has no `next_step`"));
        check("completed", json!("all"), "Completed: all\n", "");
        check(
            "completed",
            json!(["a", 1, "b", ["c"]]),
            "Completed: a; b\n",
            &format!(
                "{file}: `completed` has a number among its texts\n\
                 {file}: `completed` has a list among its texts"
            ),
        );
        check(
            "completed",
            json!({ "a": true }),
            "",
            &format!("{file}: `completed` is an object, not a list of texts"),
        );
        check(
            "critical_files",
            json!(["/etc/passwd", "a/../../b", "~/x", "", "c\nd", "./src/ok.rs", "..rs"]),
            "Ref: ./src/ok.rs, ..rs\n",
            &format!(
                "{file}: `critical_files` names \"/etc/passwd\", which is outside the workspace\n\
                 {file}: `critical_files` names \"a/../../b\", which is outside the workspace\n\
                 {file}: `critical_files` names \"~/x\", which is outside the workspace\n\
                 {file}: `critical_files` names \"\", which is empty\n\
                 {file}: `critical_files` names \"c d\", which has control characters"
            ),
        );
        check("memory_notes", json!(["one", "two"]), "Notes: one\ntwo\n", "");
    }

    #[test]
    fn what_is_no_handoff_is_one_warning() {
        for (bytes, warning) in [
            (&b""[..], "is not JSON: EOF while parsing"),
            (b"{\"phase\": ", "is not JSON: EOF while parsing"),
            (b"[]", "is a list, not an object"),
            (b"\xff\xfe", "is not JSON: "),
            (&[b' '; BYTES_MAX + 1], "has more than 65536 bytes"),
            ("[".repeat(60_000).as_bytes(), "is not JSON: recursion limit"),
        ] {
            let Read { handoff, warnings } = read(bytes);
            assert_eq!(handoff, None);
            assert_eq!(warnings.len(), 1);
            assert!(warnings[0].contains(warning), "{warnings:?}");
        }
        assert!(read("\u{feff}{\"phase\":\"x\"}".as_bytes()).handoff.is_some());
    }

    #[test]
    fn everything_has_a_limit() {
        let long = "x".repeat(3000);
        let document = json!({
            "phase": long, "next_step": long, "completed": vec!["done"; 500],
            "critical_files": vec!["f"; 200], "memory_notes": "y".repeat(20_000),
        });
        let Read { handoff, warnings } = read_value(&document);
        let handoff = handoff.unwrap();
        assert_eq!(handoff.phase.unwrap().len(), LINE_BYTES);
        assert_eq!(handoff.completed.len(), COMPLETED_MAX);
        assert_eq!(handoff.critical_files.len(), FILES_MAX);
        assert_eq!(handoff.memory_notes.unwrap().len(), NOTES_BYTES);
        assert_eq!(warnings.len(), 5);
        let wrong = read_value(&json!({ "completed": vec![1; 500] }));
        assert_eq!(wrong.warnings.len(), WARNINGS_MAX + 1);
    }

    /// Generates any JSON, with our keys among others.
    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[./~a\n]{0,8}".prop_map(Value::from),
        ];
        let key = prop_oneof![
            proptest::sample::select(vec![
                "phase",
                "completed",
                "next_step",
                "critical_files",
                "memory_notes"
            ])
            .prop_map(str::to_owned),
            any::<String>(),
        ];
        leaf.prop_recursive(3, 24, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((key.clone(), inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>()) {
            read(&bytes);
        }

        #[test]
        fn what_was_read_is_clean(document in documents()) {
            let Read { handoff, warnings } = read_value(&document);
            prop_assert_eq!(handoff.is_some(), document.is_object());
            prop_assert!(warnings.len() <= WARNINGS_MAX + 1);
            let handoff = handoff.unwrap_or_default();
            let state = handoff.resumed_state();
            prop_assert!(!state.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
            prop_assert_eq!(state.is_empty(), handoff.is_empty());
            for path in &handoff.critical_files {
                prop_assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."));
            }
        }
    }
}
