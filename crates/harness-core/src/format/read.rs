//! Parses bytes into a ledger, or into an error that names the task and the field.

use std::{ops::Range, sync::Arc};

use indexmap::map::Entry;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::{
    Document, FILE_NAME,
    disk::{DiskHead, DiskTask},
    object::Object,
    pretty::field_at,
};
use crate::{
    ledger::{DuplicateTask, Head, Ledger, VERSION},
    task::{Task, TaskHash, TaskMap},
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

/// Bytes that are not a ledger.
#[derive(Debug)]
pub struct Unreadable {
    /// The reason.
    pub error: FormatError,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Parses the ledger and the text that a later write starts from.
pub fn read(bytes: &[u8]) -> Result<(Ledger, Document), FormatError> {
    read_owned(bytes.to_vec()).map_err(|unreadable| unreadable.error)
}

/// Does the same without a copy of the file. The document keeps the bytes.
pub fn read_owned(bytes: Vec<u8>) -> Result<(Ledger, Document), Unreadable> {
    let source = match String::from_utf8(bytes) {
        Ok(text) => Arc::new(text),
        Err(e) => {
            let error = FormatError::Corrupt(e.utf8_error().to_string());
            return Err(Unreadable { error, bytes: e.into_bytes() });
        }
    };
    let parts = match swift(without_mark(&source)) {
        Some(parts) => Ok(parts),
        // The swift pass failed. The careful one finds the place of the error.
        None => careful(without_mark(&source)),
    };
    match parts {
        Ok(parts) => Ok(parts.over(source)),
        Err(error) => {
            let bytes = Arc::try_unwrap(source).unwrap_or_else(|shared| (*shared).clone());
            Err(Unreadable { error, bytes: bytes.into_bytes() })
        }
    }
}

/// The parts of a ledger, and the ranges of its tasks in the text.
struct Parts {
    fields: Object,
    head: Head,
    tasks: TaskMap<Task>,
    ranges: Vec<Range<usize>>,
}

impl Parts {
    /// Builds the ledger and its text, which ends with the text that the parts were read from.
    fn over(self, source: Arc<String>) -> (Ledger, Document) {
        let mark = source.len() - without_mark(&source).len();
        let texts = self.tasks.keys().cloned().zip(self.ranges);
        let texts = texts.map(|(id, range)| (id, range.start + mark..range.end + mark));
        let document = Document::read(self.fields, Arc::clone(&source), texts);
        (Ledger::of(self.head, self.tasks), document)
    }
}

/// Parses each task where it stands, in one pass over the text. Returns `None` if anything is not as
/// it should be.
fn swift(text: &str) -> Option<Parts> {
    let list = field_at(text, "tasks")?;
    let mut rest = text[list..].trim_start_matches(SPACE).strip_prefix('[')?;
    let (mut tasks, mut ranges) = (TaskMap::default(), Vec::new());
    rest = rest.trim_start_matches(SPACE);
    let first = text.len() - rest.len();
    if !rest.starts_with(']') {
        loop {
            let start = text.len() - rest.len();
            let mut read = serde_json::Deserializer::from_str(rest).into_iter::<DiskTask<'_>>();
            let task = Task::from(read.next()?.ok()?);
            let end = start + read.byte_offset();
            match tasks.entry(task.id.clone()) {
                Entry::Vacant(place) => _ = place.insert(task),
                Entry::Occupied(_) => return None,
            }
            ranges.push(start..end);
            if ranges.len() == SAMPLE {
                // A map that grows moves all of its tasks each time.
                let likely = SAMPLE * (text.len() - end) / (end - first);
                tasks.reserve(likely.min(RESERVED_MAX));
                ranges.reserve(likely.min(RESERVED_MAX));
            }
            rest = text[end..].trim_start_matches(SPACE);
            match rest.strip_prefix(',') {
                Some(more) => rest = more.trim_start_matches(SPACE),
                None => break,
            }
        }
    }
    let after = rest.strip_prefix(']')?;
    let root = [&text[..list], "null", after].concat();
    let Top { fields, tasks: () } = serde_json::from_str(&root).ok()?;
    let head = head(&fields).ok()?;
    Some(Parts { fields, head, tasks, ranges })
}

/// The number of tasks after which the number of the others is estimated.
const SAMPLE: usize = 64;
/// The most tasks for which room is reserved because of that estimate.
const RESERVED_MAX: usize = 32 * 1024;

/// The characters that JSON allows between its parts.
const SPACE: [char; 4] = [' ', '\n', '\r', '\t'];

fn careful(text: &str) -> Result<Parts, FormatError> {
    let top: Top<Vec<&RawValue>> = serde_json::from_str(text).map_err(|e| explain(text, &e))?;
    let rows: Vec<&str> = top.tasks.iter().map(|raw| raw.get()).collect();
    let start = |row: &&str| row.as_ptr().addr() - text.as_ptr().addr();
    let ranges = rows.iter().map(|row| start(row)..start(row) + row.len()).collect();
    parts(top.fields, &rows, ranges)
}

/// Parses the texts of the tasks, which have these ranges.
fn parts(fields: Object, rows: &[&str], ranges: Vec<Range<usize>>) -> Result<Parts, FormatError> {
    let head = head(&fields)?;
    let mut tasks = TaskMap::with_capacity_and_hasher(rows.len(), TaskHash::default());
    for (n, row) in rows.iter().enumerate() {
        let task = task(n, row)?;
        if let Some(earlier) = tasks.insert(task.id.clone(), task) {
            return Err(FormatError::shape("", DuplicateTask(earlier.id)));
        }
    }
    Ok(Parts { fields, head, tasks, ranges })
}

/// Builds the ledger from a root object and the texts of its tasks.
pub(super) fn assemble(fields: Object, rows: &[&str]) -> Result<(Ledger, Document), FormatError> {
    let mut end = 0;
    let range = |row: &&str| {
        end += row.len();
        end - row.len()..end
    };
    let ranges = rows.iter().map(range).collect();
    Ok(parts(fields, rows, ranges)?.over(Arc::new(rows.concat())))
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
    Ok(without_mark(text))
}

/// Some editors start a file with a byte order mark. This must not cost the person their edit.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

pub(super) fn head(fields: &Object) -> Result<Head, FormatError> {
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

/// Parses the text of one task.
pub(super) fn one(text: &str) -> Result<Task, FormatError> {
    task(0, text)
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
struct ById(TaskMap<Task>);

impl<'de> Deserialize<'de> for ById {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> de::Visitor<'de> for List {
            type Value = ById;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<ById, A::Error> {
                let mut tasks = TaskMap::default();
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
