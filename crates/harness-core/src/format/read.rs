//! Parses bytes into a ledger, or into an error that names the task and the field.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::{
    Document, FILE_NAME,
    disk::{DiskHead, DiskTask},
    object::Object,
};
use crate::{
    TaskId,
    ledger::{DuplicateTask, Head, Ledger, VERSION},
    task::Task,
};

/// The reason why bytes are not a ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The bytes are not JSON: half written, or damaged. A backup may help.
    #[error("{FILE_NAME} is not readable JSON: {0}")]
    Corrupt(String),
    /// The bytes are JSON, but not a ledger. A person must fix it; a backup would discard their
    /// edit.
    #[error("{FILE_NAME}: {place}{problem}")]
    Shape {
        /// The task and field, ending in `: `; empty if there is none to name.
        place: String,
        /// A description of the problem.
        problem: String,
    },
    /// A newer program wrote it, and a write could destroy data that we do not understand.
    #[error(
        "{FILE_NAME}: version {found} was written by a newer harness (this one reads version {VERSION})"
    )]
    Newer {
        /// The version in the file.
        found: u64,
    },
}

impl FormatError {
    fn shape(place: impl Into<String>, problem: impl ToString) -> Self {
        Self::Shape { place: place.into(), problem: problem.to_string() }
    }
}

/// Parses the ledger and the text that a later write starts from.
pub fn read(bytes: &[u8]) -> Result<(Ledger, Document), FormatError> {
    careful(utf8(bytes)?)
}

fn careful(text: &str) -> Result<(Ledger, Document), FormatError> {
    let top: Top<Vec<&RawValue>> = serde_json::from_str(text).map_err(|e| explain(text, &e))?;
    let rows: Vec<&str> = top.tasks.iter().map(|raw| raw.get()).collect();
    assemble(top.fields, &rows)
}

/// Builds the ledger from a root object and the texts of its tasks.
pub(super) fn assemble(fields: Object, rows: &[&str]) -> Result<(Ledger, Document), FormatError> {
    let head = head(&fields)?;
    let tasks = rows.iter().enumerate().map(|(n, row)| task(n, row)).collect::<Result<_, _>>()?;
    let ledger = Ledger::new(head, tasks).map_err(|e| FormatError::shape("", e))?;
    let texts = ledger.tasks().zip(rows).map(|(t, row)| (t.id.clone(), *row));
    let document = Document::read(fields, texts);
    Ok((ledger, document))
}

/// Parses the ledger alone, in one pass, for callers that only read.
pub fn read_ledger(bytes: &[u8]) -> Result<Ledger, FormatError> {
    let (head, ById(tasks)) = quick(utf8(bytes)?)?;
    Ok(Ledger::of(head, tasks))
}

/// Parses the head, and the list of tasks as a `T`. `T` must accept what [`DiskTask`] accepts and
/// refuse a second task with the same id.
pub(super) fn quick<'a, T: Deserialize<'a>>(text: &'a str) -> Result<(Head, T), FormatError> {
    let top: Top<T> = match serde_json::from_str(text) {
        Ok(top) => top,
        // The quick pass failed. The careful one finds the place of the error.
        Err(e) => {
            let place = careful(text).err();
            return Err(place.unwrap_or_else(|| FormatError::shape("", without_position(&e))));
        }
    };
    Ok((head(&top.fields)?, top.tasks))
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, FormatError> {
    let text = std::str::from_utf8(bytes).map_err(|e| FormatError::Corrupt(e.to_string()))?;
    // Some editors start a file with a byte order mark. This must not cost the person their edit.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn head(fields: &Object) -> Result<Head, FormatError> {
    version(fields)?;
    let json = fields.json();
    let mut json = serde_json::Deserializer::from_str(&json);
    let head: DiskHead = serde_path_to_error::deserialize(&mut json)
        .map_err(|e| FormatError::shape(format!("{}: ", e.path()), without_position(e.inner())))?;
    Ok(head.into())
}

/// Checks the version before anything else. A ledger of a newer harness may have another shape, and
/// the shape is not the problem then.
fn version(fields: &Object) -> Result<(), FormatError> {
    let Some(given) = fields.get("version").filter(|v| *v != "null") else { return Ok(()) };
    match given.parse::<u64>() {
        Ok(VERSION) => Ok(()),
        Ok(found) if found > VERSION => Err(FormatError::Newer { found }),
        Ok(_) | Err(_) => {
            let given: String = given.chars().take(40).collect();
            let problem =
                format!("{given} is not a version this harness reads (it reads {VERSION})");
            Err(FormatError::shape("version: ", problem))
        }
    }
}

fn task(position: usize, text: &str) -> Result<Task, FormatError> {
    serde_json::from_str::<DiskTask<'_>>(text).map(Task::from).map_err(|_| {
        let id = serde_json::from_str::<Object>(text).ok().and_then(|t| t.read::<String>("id"));
        let place =
            id.map_or_else(|| format!("tasks[{position}]: "), |id| format!("task {id:?}: "));
        let mut json = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, DiskTask<'_>>(&mut json) {
            Err(e) if e.path().iter().next().is_some() => {
                FormatError::shape(format!("{place}{}: ", e.path()), without_position(e.inner()))
            }
            Err(e) => FormatError::shape(place, without_position(e.inner())),
            Ok(_) => FormatError::shape(place, "unreadable"),
        }
    })
}

/// Returns the reason why a text has no root with tasks. Truncated JSON is distinguished first,
/// because only then a backup helps.
fn explain(text: &str, error: &serde_json::Error) -> FormatError {
    if let Err(e) = serde_json::from_str::<de::IgnoredAny>(text) {
        return FormatError::Corrupt(e.to_string());
    }
    if !text.trim_start().starts_with('{') {
        return FormatError::shape("", "the root is not an object");
    }
    let Ok(top) = serde_json::from_str::<Object>(text) else {
        return FormatError::shape("", without_position(error));
    };
    if let Err(e) = version(&top) {
        return e;
    }
    match top.get("tasks") {
        None => FormatError::shape("tasks: ", "missing"),
        Some(tasks) if !tasks.starts_with('[') => FormatError::shape("tasks: ", "must be a list"),
        Some(_) => FormatError::shape("", without_position(error)),
    }
}

/// Removes the position from the message. A position inside the text of one task would lead the
/// reader to the wrong line of the file.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(problem, _)| problem.to_owned())
}

/// The root object, with the tasks separate from everything else. `fields` keeps the order of the
/// keys, with a null in the place of the tasks.
struct Top<T> {
    fields: Object,
    tasks: T,
}

/// Collects the tasks directly in their final map. Tasks are large, and moving all of them is
/// measurable.
struct ById(IndexMap<TaskId, Task>);

impl<'de> Deserialize<'de> for ById {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> de::Visitor<'de> for List {
            type Value = ById;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<ById, A::Error> {
                let mut tasks = IndexMap::new();
                while let Some(task) = list.next_element::<DiskTask<'_>>()? {
                    let task = Task::from(task);
                    if let Some(earlier) = tasks.insert(task.id.clone(), task) {
                        return Err(de::Error::custom(DuplicateTask(earlier.id)));
                    }
                }
                Ok(ById(tasks))
            }
        }
        d.deserialize_seq(List)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Top<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Root<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Root<T> {
            type Value = Top<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Top<T>, A::Error> {
                let mut fields = Object::default();
                let mut tasks = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key != "tasks" {
                        fields.put(&key, map.next_value::<&RawValue>()?);
                    } else if tasks.replace(map.next_value()?).is_some() {
                        return Err(de::Error::duplicate_field("tasks"));
                    } else {
                        fields.put(&key, ());
                    }
                }
                let tasks = tasks.ok_or_else(|| de::Error::missing_field("tasks"))?;
                Ok(Top { fields, tasks })
            }
        }
        d.deserialize_map(Root(std::marker::PhantomData))
    }
}
