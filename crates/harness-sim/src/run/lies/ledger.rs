//! Lies in the ledger itself.

use harness::store::disk::File;
use harness_core::{TaskId, format};
use serde_json::{Value, json};

use super::{Forged, Kind};
use crate::{checkers::same, random::Random, run::stage::State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Lie {
    /// Marks its own task as completed.
    Completes,
    /// Marks another task as completed.
    CompletesAnother,
    /// Resets its count of attempts.
    ForgetsAttempts,
    /// Raises the limit of its attempts.
    RaisesLimit,
    /// Replaces its check.
    ChangesCheck,
    /// Replaces the check of a task that has not begun.
    ChangesAnothersCheck,
    /// Removes a task.
    RemovesTask,
    /// Changes its claim.
    ForgesClaim,
    /// Removes flags and alerts.
    ClearsFlags,
    /// Resets the counters.
    ResetsCounters,
    /// Removes only the seal.
    Unseals,
    /// Restores an earlier version with its seal.
    GoesBack,
    Garbles,
    Truncates,
    Deletes,
    /// Makes a change that every program may make.
    AddsTask,
    Retitles,
}

const ALL: [(Lie, u64); 17] = [
    (Lie::Completes, 12),
    (Lie::CompletesAnother, 6),
    (Lie::ForgetsAttempts, 10),
    (Lie::RaisesLimit, 8),
    (Lie::ChangesCheck, 10),
    (Lie::ChangesAnothersCheck, 6),
    (Lie::RemovesTask, 6),
    (Lie::ForgesClaim, 6),
    (Lie::ClearsFlags, 5),
    (Lie::ResetsCounters, 4),
    (Lie::Unseals, 3),
    (Lie::GoesBack, 8),
    (Lie::Garbles, 5),
    (Lie::Truncates, 3),
    (Lie::Deletes, 5),
    (Lie::AddsTask, 2),
    (Lie::Retitles, 3),
];

/// The limit of tasks that a liar adds, so that the world ends.
const ADDED_MAX: usize = 2;

impl Lie {
    pub(super) fn any(random: &mut Random) -> Self {
        ALL[random.weighted(&ALL.map(|(_, weight)| weight))].0
    }
}

/// Puts these bytes in the place of the ledger.
pub(super) fn forge(state: &mut State, bytes: Vec<u8>, kind: Kind) {
    let known = state.disk.bytes(File::Ledger);
    if known == bytes {
        return;
    }
    match bytes.is_empty() {
        true => state.disk.remove(File::Ledger),
        false if state.random.percent(50) => state.disk.put(File::Ledger, &bytes),
        false if known.is_empty() => state.disk.put(File::Ledger, &bytes),
        false => state.disk.edit(File::Ledger, &bytes),
    }
    let earlier = state.lies.forged.take().map(|forged| forged.kind);
    let kind = match format::read_ledger(&bytes) {
        Err(_) => Kind::Broken,
        Ok(ledger) if same(&ledger, &state.ledger) => Kind::Harmless,
        Ok(_) if earlier == Some(Kind::Edit) => Kind::Edit,
        Ok(_) => kind,
    };
    state.lies.forged = Some(Forged { bytes, kind });
}

pub(super) fn tell(state: &mut State, lie: Lie, task: &TaskId) {
    let bytes = state.disk.bytes(File::Ledger);
    match lie {
        Lie::Garbles => {
            let at = state.random.below(bytes.len() + 1);
            let mut garbled = bytes;
            // A zero byte is not valid even inside of a string.
            garbled.insert(at, 0);
            return forge(state, garbled, Kind::Broken);
        }
        Lie::Truncates => {
            let kept = bytes[..bytes.len() / 2].to_vec();
            return forge(state, kept, Kind::Broken);
        }
        Lie::Deletes => return forge(state, Vec::new(), Kind::Broken),
        Lie::GoesBack => {
            let count = state.lies.versions.len();
            let at = state.random.below(count);
            if let Some(version) = state.lies.versions.get(at).cloned() {
                forge(state, version, Kind::Edit);
            }
            return;
        }
        _ => {}
    }
    let Ok(mut root) = serde_json::from_slice::<Value>(&bytes) else { return };
    // A task that harness has not seen yet cannot be forged.
    let known = |task: &Value| {
        let id = task["id"].as_str().and_then(|id| TaskId::parse(id).ok());
        id.is_some_and(|id| state.ledger.contains(&id))
    };
    if root["tasks"].as_array().is_some_and(|tasks| !tasks.iter().all(known)) {
        return;
    }
    let Some(kind) = edit(state, &mut root, lie, task) else { return };
    let text = serde_json::to_vec_pretty(&root).unwrap_or_default();
    forge(state, text, kind);
}

fn tasks(root: &mut Value) -> Option<&mut Vec<Value>> {
    root.get_mut("tasks")?.as_array_mut()
}

fn named<'a>(root: &'a mut Value, id: &str) -> Option<&'a mut Value> {
    tasks(root)?.iter_mut().find(|task| task["id"] == id)
}

/// Returns one of the other tasks with this status.
fn another<'a>(
    root: &'a mut Value,
    random: &mut Random,
    own: &TaskId,
    status: &[&str],
) -> Option<&'a mut Value> {
    let fits = |task: &Value| {
        task["id"] != own.as_str() && status.iter().any(|status| task["status"] == *status)
    };
    let tasks = tasks(root)?;
    let others: Vec<usize> = (0..tasks.len()).filter(|at| fits(&tasks[*at])).collect();
    let at = *random.pick(&others)?;
    tasks.get_mut(at)
}

/// Edits the ledger. Returns `None` if there is nothing to lie about.
fn edit(state: &mut State, root: &mut Value, lie: Lie, own: &TaskId) -> Option<Kind> {
    let random = &mut state.random;
    match lie {
        Lie::Completes => complete(named(root, own.as_str())?),
        Lie::CompletesAnother => {
            complete(another(root, random, own, &["pending", "failed"])?);
        }
        Lie::ForgetsAttempts => {
            let task = named(root, own.as_str())?;
            if task["attempts"] == 0 {
                return None;
            }
            task["attempts"] = json!(0);
        }
        Lie::RaisesLimit => named(root, own.as_str())?["max_attempts"] = json!(99),
        Lie::ChangesCheck => named(root, own.as_str())?["validation"]["command"] = json!("pass"),
        Lie::ChangesAnothersCheck => {
            let task = another(root, random, own, &["pending", "failed"])?;
            task["validation"]["command"] = json!("pass");
        }
        Lie::RemovesTask => {
            let id = another(root, random, own, &["pending", "completed", "failed"])?["id"].clone();
            tasks(root)?.retain(|task| task["id"] != id);
        }
        Lie::ForgesClaim => {
            let task = named(root, own.as_str())?;
            match random.below(3) {
                0 => task["claimed_by"] = json!("somebody"),
                1 => task["epoch"] = json!(10_000),
                _ => task["status"] = json!("pending"),
            }
        }
        Lie::ClearsFlags => {
            let had = root.as_object_mut()?.remove("alerts").is_some();
            let flags = named(root, own.as_str())?.as_object_mut()?.remove("flags").is_some();
            if !had && !flags {
                return None;
            }
        }
        Lie::ResetsCounters => {
            root["session_count"] = json!(0);
            root["session_config"]["max_sessions"] = json!(9999);
            root["epoch"] = json!(0);
        }
        // Nothing that harness relies on is changed.
        Lie::Unseals => {
            root.as_object_mut()?.remove("seal")?;
            return Some(Kind::Harmless);
        }
        Lie::AddsTask => {
            if state.lies.given.len() >= 4 + ADDED_MAX {
                return None;
            }
            let number = 500 + random.below(400) as u64;
            let id = TaskId::numbered(number);
            let check = format!("check {id}");
            tasks(root)?.push(json!({
                "id": id.as_str(), "title": "added", "status": "pending",
                "validation": { "command": check }, "max_attempts": 1,
            }));
            return Some(Kind::Harmless);
        }
        Lie::Retitles => {
            let task = another(root, random, own, &["pending"])?;
            if task["attempts"].as_u64().unwrap_or(0) > 0 {
                return None;
            }
            task["title"] = json!("another title");
            return Some(Kind::Harmless);
        }
        Lie::Garbles | Lie::Truncates | Lie::Deletes | Lie::GoesBack => return None,
    }
    Some(Kind::Edit)
}

fn complete(task: &mut Value) {
    task["status"] = json!("completed");
    task["completed_at"] = json!("2025-07-01T10:00:00Z");
    if task["attempts"].as_u64().unwrap_or(0) == 0 {
        task["attempts"] = json!(1);
    }
}
