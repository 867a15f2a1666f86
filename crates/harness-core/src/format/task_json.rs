//! A task between two processes, as the object that the file has for it.

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};
use serde_json::value::RawValue;

use super::{disk::DiskTask, task_object};
use crate::Task;

pub(crate) fn serialize<S: Serializer>(task: &Task, s: S) -> Result<S::Ok, S::Error> {
    task_object(task).serialize(s)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Task, D::Error> {
    let text = Box::<RawValue>::deserialize(d)?;
    read(text.get()).map_err(D::Error::custom)
}

/// Reads the text of a task.
pub(super) fn read(text: &str) -> Result<Task, serde_json::Error> {
    serde_json::from_str::<DiskTask<'_>>(text).map(Task::from)
}
