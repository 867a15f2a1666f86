//! The shapes on the wire, apart from the domain types.

use harness_core::{Task, format, task::Status};
use serde_json::{Map, Value, json};

/// How long a claim through the wire lasts if the task does not say.
const TIMEOUT_SECONDS: u64 = harness_core::lease::CLIENT_LEASE_SECONDS;

/// A task as clients know it: ten keys that are always there, in this order, under the names of
/// the wire; further fields of the ledger follow under their own.
pub fn task(task: &Task) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("id", json!(task.id));
    put("description", json!(task.title));
    put("status", json!(status(task.status)));
    put("dependencies", json!(task.depends_on));
    put("started_at", json!(task.claimed_at));
    put("completed_at", json!(task.completed_at));
    put("claimed_by", json!(task.claimed_by));
    put("timeout_seconds", json!(task.timeout_seconds.unwrap_or(TIMEOUT_SECONDS)));
    put("instructions", json!(task.instructions));
    put("role", json!(task.role));
    for (key, value) in format::task_object(task) {
        let renamed = matches!(key.as_str(), "title" | "depends_on" | "claimed_at");
        if !renamed && !object.contains_key(&key) {
            object.insert(key, value);
        }
    }
    Value::Object(object)
}

/// The word for it that clients know.
pub fn status(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::InProgress => "running",
        Status::Completed => "completed",
        Status::Failed => "failed",
    }
}
