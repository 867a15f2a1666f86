//! Known fields into the JSON object that was there. What we do not know is not touched.

use serde_json::{Map, Value, json};

use super::disk::DiskCheckpoint;
use crate::{
    ledger::{Head, Phase, VERSION},
    task::{Checkpoint, Intent, Task},
};

type Object = Map<String, Value>;

/// The root of a new file, its keys in the order that people know.
pub(super) fn new_root() -> Object {
    let keys = ["version", "created", "session_config", "tasks", "session_count", "last_session"];
    keys.into_iter().map(|k| (k.to_owned(), Value::Null)).collect()
}

pub(super) fn head(root: &mut Object, head: &Head) {
    root.insert("version".into(), VERSION.into());
    put(root, "created", json!(head.created));
    let config = child(root, "session_config");
    let mode = head.session_config.concurrency_mode.name();
    config.insert("concurrency_mode".into(), mode.into());
    config.insert("max_tasks_per_session".into(), head.session_config.max_tasks_per_session.into());
    config.insert("max_sessions".into(), head.session_config.max_sessions.into());
    if !root.contains_key("tasks") {
        root.insert("tasks".into(), Value::Null);
    }
    root.insert("session_count".into(), head.session_count.into());
    put(root, "last_session", json!(head.last_session));
    ours(root, "epoch", (head.epoch.0 > 0).then(|| head.epoch.0.into()));
    ours(root, "goal", head.goal.as_deref().map(Value::from));
    phases(root, &head.phases);
    let tail = (!head.log_tail.is_empty()).then(|| json!(head.log_tail));
    ours(root, "log_at", tail.as_ref().map(|_| head.log_at.into()));
    ours(root, "log_tail", tail);
}

fn phases(root: &mut Object, phases: &[Phase]) {
    if phases.is_empty() {
        // An empty list that was there stays: it means the same.
        if root.get("phases").is_some_and(|p| p.as_array().is_none_or(|p| !p.is_empty())) {
            root.shift_remove("phases");
        }
        return;
    }
    let before = root.get("phases").and_then(Value::as_array).cloned().unwrap_or_default();
    let object = |phase: &Phase| {
        let named = |v: &&Value| v.get("name").and_then(Value::as_str) == Some(&phase.name);
        let mut object =
            before.iter().find(named).and_then(Value::as_object).cloned().unwrap_or_default();
        object.insert("name".into(), phase.name.as_str().into());
        if let Some(gate) = &phase.gate {
            let fields = child(&mut object, "gate");
            fields.insert("command".into(), gate.command.as_str().into());
            ours(fields, "timeout_seconds", gate.timeout_seconds.map(Value::from));
        }
        if phase.approve || object.contains_key("approve") {
            object.insert("approve".into(), phase.approve.into());
        }
        ours(&mut object, "passed_at", phase.passed_at.map(|t| json!(t)));
        Value::Object(object)
    };
    let patched: Vec<Value> = phases.iter().map(object).collect();
    root.insert("phases".into(), patched.into());
}

pub(super) fn task(mut fields: Object, task: &Task) -> Object {
    let o = &mut fields;
    put(o, "id", json!(task.id));
    put(o, "title", json!(task.title));
    put(o, "status", json!(task.status.name()));
    put(o, "priority", json!(task.priority.name()));
    put(o, "depends_on", json!(task.depends_on));
    put(o, "attempts", json!(task.attempts));
    put(o, "max_attempts", json!(task.max_attempts));
    put(o, "started_at_commit", json!(task.started_at_commit));
    let v = child(o, "validation");
    put(v, "command", json!(task.validation.command));
    put(v, "timeout_seconds", json!(task.validation.timeout_seconds));
    ours(v, "clean", task.validation.clean.map(Value::from));
    ours(v, "baseline", task.validation.baseline.map(Value::from));
    put(child(o, "on_failure"), "cleanup", json!(task.cleanup));
    put(o, "error_log", json!(task.error_log));
    checkpoints(o, &task.checkpoints);
    put(o, "completed_at", json!(task.completed_at));

    let text = |t: &Option<String>| t.as_deref().map(Value::from);
    ours(o, "failed_at", task.failed_at.map(|t| json!(t)));
    ours(o, "claimed_by", task.claimed_by.as_ref().map(|w| json!(w)));
    ours(o, "claimed_at", task.claimed_at.map(|t| json!(t)));
    ours(o, "lease_expires_at", task.lease_expires_at.map(|t| json!(t)));
    ours(o, "epoch", task.epoch.map(|e| e.0.into()));
    ours(o, "via", task.via.map(|v| v.name().into()));
    ours(o, "worktree", text(&task.worktree));
    ours(o, "branch", text(&task.branch));
    ours(o, "base_untracked", task.base_untracked.as_ref().map(|t| json!(t)));
    ours(o, "intent", task.intent.as_ref().map(intent));
    ours(o, "instructions", text(&task.instructions));
    ours(o, "role", text(&task.role));
    ours(o, "phase", text(&task.phase));
    ours(o, "timeout_seconds", task.timeout_seconds.map(Value::from));
    ours(o, "order", task.order.map(Value::from));
    fields
}

fn intent(intent: &Intent) -> Value {
    match intent {
        Intent::Rollback { category, message } => {
            json!({ "rollback": { "category": category, "message": message } })
        }
        Intent::Land { target, from, to } => {
            json!({ "land": { "target": target, "from": from, "to": to } })
        }
    }
}

/// Checkpoints are only added at the end and dropped at the start, so those that stayed keep the
/// object that they had, with whatever else is in it.
fn checkpoints(o: &mut Object, checkpoints: &[Checkpoint]) {
    let before = match o.get_mut("checkpoints").map(Value::take) {
        Some(Value::Array(before)) => before,
        Some(_) | None => Vec::new(),
    };
    let read = |v: &Value| serde_json::from_value::<DiskCheckpoint>(v.clone()).ok();
    let known: Vec<Option<Checkpoint>> =
        before.iter().map(|v| read(v).map(Checkpoint::from)).collect();
    let stayed = |from: &usize| {
        let kept = &known[*from..];
        kept.len() <= checkpoints.len()
            && kept.iter().zip(checkpoints).all(|(old, new)| old.as_ref() == Some(new))
    };
    let from = (0..=known.len()).find(stayed).unwrap_or(known.len());
    let kept = before.len() - from;
    let mut list: Vec<Value> = before.into_iter().skip(from).collect();
    list.extend(checkpoints[kept..].iter().map(|c| {
        let mut object = Object::new();
        put(&mut object, "step", json!(c.step));
        put(&mut object, "total", json!(c.total));
        put(&mut object, "description", json!(c.description));
        put(&mut object, "timestamp", json!(c.timestamp));
        ours(&mut object, "tree", c.tree.as_ref().map(|t| json!(t)));
        Value::Object(object)
    }));
    put(o, "checkpoints", list.into());
}

/// A field of the published format: always there.
fn put(o: &mut Object, key: &str, value: Value) {
    match o.get_mut(key) {
        Some(there) => *there = value,
        None => {
            o.insert(key.to_owned(), value);
        }
    }
}

/// A field of ours: there only when it says something.
fn ours(o: &mut Object, key: &str, value: Option<Value>) {
    match value {
        Some(value) => put(o, key, value),
        None => {
            o.shift_remove(key);
        }
    }
}

/// The object under `key`; made if there is none.
fn child<'a>(o: &'a mut Object, key: &str) -> &'a mut Object {
    let slot = o.entry(key).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Object::new());
    }
    match slot {
        Value::Object(object) => object,
        _ => unreachable!("it was made an object just now"),
    }
}
