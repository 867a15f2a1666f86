//! Writes the known fields into the existing JSON object. Unknown fields are not touched.

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    disk::{DiskCheckpoint, DiskIntent, DiskLanding, DiskSource, DiskStatus},
    error_text,
    object::{Object, raw},
};
use crate::{
    ledger::{Head, LandingEntry, Phase, VERSION},
    task::{Checkpoint, ErrorEntry, Intent, Status, Task, TaskSource, TaskState, Via},
};

/// Returns the root of a new file, with its keys in the usual order.
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
        config.ours("target_branch", head.session_config.target_branch.as_ref());
        config.ours("target_remote", head.session_config.target_remote.as_ref());
        config.ours("landed_branch", head.session_config.landed_branch.as_ref());
        config.ours("landed_why", head.session_config.landed_why.as_ref());
    });
    if root.get("tasks").is_none() {
        root.put("tasks", ());
    }
    root.put("session_count", head.session_count);
    root.ours("session_claims", (head.session_claims > 0).then_some(head.session_claims));
    root.put("last_session", head.last_session);
    root.ours("paused_at", head.paused_at);
    root.ours("epoch", (head.epoch.0 > 0).then_some(head.epoch));
    root.ours("unsettled", head.unsettled);
    root.ours("goal", head.goal.as_ref());
    phases(root, &head.phases);
    if head.needs != root.read::<Vec<String>>("needs").unwrap_or_default() {
        root.ours("needs", (!head.needs.is_empty()).then_some(&head.needs));
    }
    landing(root, &head.landing);
    root.ours("alerts", (!head.alerts.is_empty()).then_some(&head.alerts));
    let tail = (!head.log_tail.is_empty()).then_some(&head.log_tail);
    root.ours("log_at", tail.map(|_| head.log_at));
    root.ours("log_tail", tail);
}

fn phases(root: &mut Object, phases: &[Phase]) {
    let before: Option<Vec<Object>> = root.read("phases");
    if phases.is_empty() {
        // An existing empty list stays, because it means the same.
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
        } else if object.get("gate").is_some_and(|gate| gate != "null") {
            object.remove("gate");
        }
        if phase.approve || object.get("approve").is_some() {
            object.put("approve", phase.approve);
        }
        object.ours("passed_at", phase.passed_at);
        object.ours("claimed_by", phase.held.as_ref().map(|held| &held.by));
        object.ours("lease_expires_at", phase.held.as_ref().map(|held| held.until));
        object
    };
    let patched: Vec<Object> = phases.iter().enumerate().map(object).collect();
    root.put("phases", patched);
}

/// An entry that stays keeps the unknown fields of its object.
fn landing(root: &mut Object, entries: &[LandingEntry]) {
    let known: Vec<DiskLanding> = root.read("landing").unwrap_or_default();
    let known: Vec<LandingEntry> = known.into_iter().map(Into::into).collect();
    if known == entries {
        return;
    }
    let before: Vec<Object> = root.read("landing").unwrap_or_default();
    let object = |entry: &LandingEntry| {
        let same = |o: &LandingEntry| (&o.task, o.epoch) == (&entry.task, entry.epoch);
        let there = known.iter().position(same).and_then(|at| before.get(at));
        let mut object = there.cloned().unwrap_or_default();
        object.put("task", &entry.task);
        object.put("epoch", entry.epoch);
        object.ours("onto", entry.onto.as_ref());
        object.ours("commit", entry.commit.as_ref());
        object.ours("green", entry.green);
        object.ours("renewed_at", entry.renewed_at);
        object
    };
    let patched: Vec<Object> = entries.iter().map(object).collect();
    root.ours("landing", (!patched.is_empty()).then_some(patched));
}

pub(super) fn task(mut fields: Object, task: &Task) -> Object {
    let o = &mut fields;
    o.put("id", &task.id);
    o.put("title", &task.title);
    let before =
        o.read::<Option<DiskStatus>>("status").flatten().map_or(Status::Pending, Into::into);
    o.put("status", task.status().name());
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
    error_log(o, &task.error_log);
    checkpoints(o, &task.checkpoints);
    state_fields(o, task, before);
    o.ours("instructions", task.instructions.as_ref());
    if task.protected != o.read::<Vec<String>>("protected").unwrap_or_default() {
        o.ours("protected", (!task.protected.is_empty()).then_some(&task.protected));
    }
    if task.requires != o.read::<Vec<String>>("requires").unwrap_or_default() {
        o.ours("requires", (!task.requires.is_empty()).then_some(&task.requires));
    }
    if task.conflicts != o.read::<Vec<String>>("conflicts").unwrap_or_default() {
        o.ours("conflicts", (!task.conflicts.is_empty()).then_some(&task.conflicts));
    }
    source(o, task.source.as_deref());
    o.ours("role", task.role.as_ref());
    o.ours("phase", task.phase.as_ref());
    o.ours("timeout_seconds", task.timeout_seconds);
    o.ours("order", task.order);
    o.ours("flags", (!task.flags.is_empty()).then_some(&task.flags));
    o.ours("added_by", task.added_by.as_ref());
    fields
}

/// Writes the fields that belong to the state of a task; `before` is the status that the object
/// had. Fields of another state are removed when this state begins. Until then they stay unchanged.
fn state_fields(o: &mut Object, task: &Task, before: Status) {
    let claim = task.claim();
    let (completion, failure) = match &task.state {
        TaskState::Completed(completion) => (Some(completion), None),
        TaskState::Failed(failure) => (None, Some(failure)),
        TaskState::Pending | TaskState::Claimed(_) => (None, None),
    };
    let begins = before != task.status();
    match completion {
        Some(completion) => o.put("completed_at", completion.at),
        None if begins || o.get("completed_at").is_none() => o.put("completed_at", ()),
        None => {}
    }
    // An outer `None` marks a field of another state.
    fn put<T: Serialize>(o: &mut Object, begins: Option<()>, key: &str, value: Option<Option<T>>) {
        match (value, begins) {
            (Some(value), _) => o.ours(key, value),
            (None, Some(())) => o.remove(key),
            (None, None) => {}
        }
    }
    let begins = begins.then_some(());
    let by = claim.map(|c| c.by.as_ref()).or_else(|| completion.map(|c| c.by.as_ref()));
    let at = claim.map(|c| c.at).or_else(|| completion.map(|c| c.claimed_at));
    put(o, begins, "failed_at", failure.map(|f| f.at));
    put(o, begins, "claimed_by", by);
    put(o, begins, "claimed_at", at);
    put(o, begins, "lease_expires_at", claim.map(|c| c.lease_expires_at));
    o.ours("epoch", task.epoch);
    put(o, begins, "via", claim.map(|c| c.via.map(Via::name)));
    put(o, begins, "worktree", claim.map(|c| c.worktree.as_ref()));
    put(o, begins, "branch", claim.map(|c| c.branch.as_ref()));
    put(o, begins, "base_untracked", claim.map(|c| c.base_untracked.as_ref()));
    // An unchanged intent keeps the unknown fields of its object.
    if claim.is_none() || o.read::<DiskIntent>("intent").map(Intent::from).as_ref() != task.intent()
    {
        put(o, begins, "intent", claim.map(|c| c.intent.as_ref().map(intent)));
    }
}

/// Entries are added at the end, so those that stay keep their text.
fn error_log(o: &mut Object, entries: &[ErrorEntry]) {
    let before: Vec<String> = o.read("error_log").unwrap_or_default();
    let mut before = before.into_iter();
    let text = |entry: &ErrorEntry| {
        let kept = before.find(|text| error_text::entry(text) == *entry);
        kept.unwrap_or_else(|| entry.to_string())
    };
    let texts: Vec<String> = entries.iter().map(text).collect();
    o.put("error_log", texts);
}

/// An unchanged source keeps the unknown fields of its object.
fn source(o: &mut Object, source: Option<&TaskSource>) {
    let before = o.read::<DiskSource>("source").map(TaskSource::from);
    match source {
        same if same == before.as_ref() => {}
        None => o.ours("source", None::<()>),
        Some(source) => o.child("source", |fields| {
            fields.put("kind", &source.kind);
            fields.ours("path", source.path.as_ref());
            fields.put("key", &source.key);
        }),
    }
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

/// Checkpoints are only added at the end and dropped at the start. Those that stay keep their
/// object with its unknown fields.
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
