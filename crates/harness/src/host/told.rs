//! Facts as hub events, for those who subscribe.

use harness_core::Fact;
use serde_json::json;

use crate::{event::Event, hub::Hub};

/// Tells what became true: a claim is `task:start`, a completion `task:complete`, a failure
/// `task:failed`, a checkpoint `task:checkpoint`. Other facts are in the log and the trajectory.
pub fn tell_facts(hub: &Hub, facts: &[Fact]) {
    facts.iter().filter_map(event).for_each(|event| hub.emit(event));
}

fn event(fact: &Fact) -> Option<Event> {
    match fact {
        Fact::Claimed { task, .. } => Some(Event::TaskStart { task_id: task.to_string() }),
        Fact::Completed { task, commit, .. } => Some(Event::TaskComplete {
            task_id: task.to_string(),
            result: commit.as_ref().map(|commit| json!({ "commit": commit })),
        }),
        Fact::Failed { task, category, message, .. } => Some(Event::TaskFailed {
            task_id: task.to_string(),
            error: format!("[{category}] {message}"),
            stack: None,
        }),
        Fact::Checkpointed { task, step, total, description } => Some(Event::custom(
            "task:checkpoint",
            json!({ "taskId": task, "step": step, "total": total, "description": description }),
        )),
        _ => None,
    }
}
