//! A task in the form for clients.

use harness_core::{Epoch, Ledger, Task, TaskId, Timestamp, WorkerId, format, task::Status};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
    ser::SerializeMap as _,
};
use serde_json::{Map, Value};

/// The default lease of a claim through the wire.
const TIMEOUT_SECONDS: u64 = harness_core::lease::CLIENT_LEASE_SECONDS;

/// A task with ten fields that are always present, under the names of the wire. Further fields of
/// the ledger follow under their own names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// The id.
    pub id: TaskId,
    /// Its title.
    pub description: String,
    /// `pending`, `running`, `completed` or `failed`.
    #[serde(serialize_with = "write_status", deserialize_with = "read_status")]
    pub status: Status,
    /// The tasks that must be completed before.
    pub dependencies: Vec<TaskId>,
    /// The time of its last claim.
    pub started_at: Option<Timestamp>,
    /// The time of its completion.
    pub completed_at: Option<Timestamp>,
    /// The worker that holds or completed it.
    pub claimed_by: Option<WorkerId>,
    /// The lease of a claim without a renewal.
    pub timeout_seconds: u64,
    /// The instructions for its worker.
    pub instructions: Option<String>,
    /// The role of the workers that may claim it. A worker without a role may claim it too.
    pub role: Option<String>,
    /// The rest of its fields in the ledger.
    #[serde(flatten)]
    pub further: Map<String, Value>,
}

impl TaskView {
    /// Returns the epoch of its last claim. A holder names it, so that a later claim is not
    /// mistaken for its own.
    pub fn epoch(&self) -> Option<Epoch> {
        self.further.get("epoch").and_then(Value::as_u64).map(Epoch)
    }

    /// Returns the end of the lease.
    pub fn lease_expires_at(&self) -> Option<Timestamp> {
        let text = self.further.get("lease_expires_at")?.as_str()?;
        Timestamp::parse(text).ok()
    }
}

impl From<&Task> for TaskView {
    fn from(task: &Task) -> Self {
        let mut further = format::task_object(task);
        for name in [
            "id",
            "title",
            "status",
            "depends_on",
            "claimed_at",
            "completed_at",
            "claimed_by",
            "timeout_seconds",
            "instructions",
            "role",
        ] {
            further.shift_remove(name);
        }
        Self {
            id: task.id.clone(),
            description: task.title.clone(),
            status: task.status(),
            dependencies: task.depends_on.clone(),
            started_at: task.claimed_at(),
            completed_at: task.completed_at(),
            claimed_by: task.claimed_by().cloned(),
            timeout_seconds: task.timeout_seconds.unwrap_or(TIMEOUT_SECONDS),
            instructions: task.instructions.clone(),
            role: task.role.clone(),
            further,
        }
    }
}

const fn word(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::InProgress => "running",
        Status::Completed => "completed",
        Status::Failed => "failed",
    }
}

fn write_status<S: Serializer>(status: &Status, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(word(*status))
}

fn read_status<'de, D: Deserializer<'de>>(d: D) -> Result<Status, D::Error> {
    let text = String::deserialize(d)?;
    let known = [Status::Pending, Status::InProgress, Status::Completed, Status::Failed];
    let found = known.into_iter().find(|status| word(*status) == text);
    found.ok_or_else(|| D::Error::custom(format!("{text:?} is not the status of a task")))
}

/// Returns all tasks of a ledger, in its order.
pub(super) fn of_ledger(ledger: &Ledger) -> Vec<TaskView> {
    ledger.tasks().map(TaskView::from).collect()
}

/// Serializes the tasks as a map by id.
pub(super) fn write_by_id<S: Serializer>(tasks: &[TaskView], s: S) -> Result<S::Ok, S::Error> {
    let mut map = s.serialize_map(Some(tasks.len()))?;
    for task in tasks {
        map.serialize_entry(&task.id, task)?;
    }
    map.end()
}

pub(super) fn read_by_id<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<TaskView>, D::Error> {
    struct ById;

    impl<'de> Visitor<'de> for ById {
        type Value = Vec<TaskView>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("tasks by id")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut tasks = Vec::new();
            while let Some((_, task)) = map.next_entry::<String, TaskView>()? {
                tasks.push(task);
            }
            Ok(tasks)
        }
    }

    d.deserialize_map(ById)
}
