//! A task between two processes, as the object that the file has for it.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

use super::{disk::DiskTask, task_object};
use crate::{Epoch, Task, command::Claimed};

/// The fields of a claim. It is here, because only this module knows how a task is written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Claimed")]
struct ClaimedJson {
    #[serde(with = "self")]
    task: Task,
    epoch: Epoch,
    is_retry: bool,
    is_reclaim: bool,
}

impl Serialize for Claimed {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        ClaimedJson::serialize(self, s)
    }
}

impl<'de> Deserialize<'de> for Claimed {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        ClaimedJson::deserialize(d)
    }
}

fn serialize<S: Serializer>(task: &Task, s: S) -> Result<S::Ok, S::Error> {
    task_object(task).serialize(s)
}

fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Task, D::Error> {
    let text = Box::<RawValue>::deserialize(d)?;
    read(text.get()).map_err(D::Error::custom)
}

/// Reads the text of a task.
pub(super) fn read(text: &str) -> Result<Task, serde_json::Error> {
    serde_json::from_str::<DiskTask<'_>>(text).map(Task::from)
}
