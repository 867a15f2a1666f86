//! Known fields into the JSON object that was there. What we do not know is not touched.

use serde_json::{Value, json, value::RawValue};

use super::{
    disk::{DiskCheckpoint, DiskIntent},
    object::{Object, raw},
};
use crate::{
    ledger::{Head, Phase, VERSION},
    task::{Checkpoint, Intent, Task},
};

/// The root of a new file, its keys in the order that people know.
pub(super) fn new_root() -> Object {
    let mut root = Object::default();
    for key in ["version", "created", "session_config", "tasks", "session_count", "last_session"] {
        root.put(key, ());
    }
    root
}

pub(super) fn head(root: &mut Object, head: &Head) {
    root.put("version", VERSION);
    root.put("created", head.created);
    root.child("session_config", |config| {
        config.put("concurrency_mode", head.session_config.concurrency_mode.name());
        config.put("max_tasks_per_session", head.session_config.max_tasks_per_session);
        config.put("max_sessions", head.session_config.max_sessions);
    });
    if root.get("tasks").is_none() {
        root.put("tasks", ());
    }
    root.put("session_count", head.session_count);
    root.put("last_session", head.last_session);
    root.ours("epoch", (head.epoch.0 > 0).then_some(head.epoch));
    root.ours("goal", head.goal.as_ref());
    phases(root, &head.phases);
    root.ours("alerts", (!head.alerts.is_empty()).then_some(&head.alerts));
    let tail = (!head.log_tail.is_empty()).then_some(&head.log_tail);
    root.ours("log_at", tail.map(|_| head.log_at));
    root.ours("log_tail", tail);
}

fn phases(root: &mut Object, phases: &[Phase]) {
    let before: Option<Vec<Object>> = root.read("phases");
    if phases.is_empty() {
        // An empty list that was there stays: it means the same.
        if before.is_none_or(|p| !p.is_empty()) {
            root.ours("phases", None::<()>);
        }
        return;
    }
    let before = before.unwrap_or_default();
    let object = |(position, phase): (usize, &Phase)| {
        let named = |o: &&Object| o.read::<String>("name").as_deref() == Some(&phase.name);
        let there = before.get(position).filter(named).or_else(|| before.iter().find(named));
        let mut object = there.cloned().unwrap_or_default();
        object.put("name", &phase.name);
        if let Some(gate) = &phase.gate {
            object.child("gate", |fields| {
                fields.put("command", &gate.command);
                fields.ours("timeout_seconds", gate.timeout_seconds);
            });
        }
        if phase.approve || object.get("approve").is_some() {
            object.put("approve", phase.approve);
        }
        object.ours("passed_at", phase.passed_at);
        object
    };
    let patched: Vec<Object> = phases.iter().enumerate().map(object).collect();
    root.put("phases", patched);
}

pub(super) fn task(mut fields: Object, task: &Task) -> Object {
    let o = &mut fields;
    o.put("id", &task.id);
    o.put("title", &task.title);
    o.put("status", task.status.name());
    o.put("priority", task.priority.name());
    o.put("depends_on", &task.depends_on);
    o.put("attempts", task.attempts);
    o.put("max_attempts", task.max_attempts);
    o.put("started_at_commit", &task.started_at_commit);
    o.child("validation", |v| {
        v.put("command", &task.validation.command);
        v.put("timeout_seconds", task.validation.timeout_seconds);
        v.ours("clean", task.validation.clean);
        v.ours("baseline", task.validation.baseline);
    });
    o.child("on_failure", |f| f.put("cleanup", &task.cleanup));
    o.put("error_log", &task.error_log);
    checkpoints(o, &task.checkpoints);
    o.put("completed_at", task.completed_at);

    o.ours("failed_at", task.failed_at);
    o.ours("claimed_by", task.claimed_by.as_ref());
    o.ours("claimed_at", task.claimed_at);
    o.ours("lease_expires_at", task.lease_expires_at);
    o.ours("epoch", task.epoch);
    o.ours("via", task.via.map(|v| v.name()));
    o.ours("worktree", task.worktree.as_ref());
    o.ours("branch", task.branch.as_ref());
    o.ours("base_untracked", task.base_untracked.as_ref());
    // One that stayed keeps whatever else is in it.
    if o.read::<DiskIntent>("intent").map(Intent::from) != task.intent {
        o.ours("intent", task.intent.as_ref().map(intent));
    }
    o.ours("instructions", task.instructions.as_ref());
    o.ours("role", task.role.as_ref());
    o.ours("phase", task.phase.as_ref());
    o.ours("timeout_seconds", task.timeout_seconds);
    o.ours("order", task.order);
    o.ours("flags", (!task.flags.is_empty()).then_some(&task.flags));
    o.ours("added_by", task.added_by.as_ref());
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
    let before: Vec<Box<RawValue>> = o.read("checkpoints").unwrap_or_default();
    let read = |v: &RawValue| {
        serde_json::from_str::<DiskCheckpoint<'_>>(v.get()).map(Checkpoint::from).ok()
    };
    let known: Vec<Option<Checkpoint>> = before.iter().map(|v| read(v)).collect();
    let stayed = |from: &usize| {
        let kept = &known[*from..];
        kept.len() <= checkpoints.len()
            && kept.iter().zip(checkpoints).all(|(old, new)| old.as_ref() == Some(new))
    };
    let from = (0..=known.len()).find(stayed).unwrap_or(known.len());
    let kept = before.len() - from;
    let mut list: Vec<Box<RawValue>> = before.into_iter().skip(from).collect();
    list.extend(checkpoints[kept..].iter().map(|c| {
        let mut object = Object::default();
        object.put("step", c.step);
        object.put("total", c.total);
        object.put("description", &c.description);
        object.put("timestamp", c.timestamp);
        object.ours("tree", c.tree.as_ref());
        raw(object)
    }));
    o.put("checkpoints", list);
}
