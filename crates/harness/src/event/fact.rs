//! Facts of the ledger as events.

use std::sync::Arc;

use harness_core::Fact;
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::json;

use super::Event;

/// Something that became true in the ledger.
///
/// On the wire its `type` is `ledger:` and the name that the fact has in the trajectory, and the
/// fields are those of the trajectory in camel case. A Rust program reads the [`Fact`] itself.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEvent {
    fact: Arc<Fact>,
    kind: String,
}

impl LedgerEvent {
    /// Returns the fact.
    pub fn fact(&self) -> &Fact {
        &self.fact
    }

    /// Returns the `type` on the wire.
    pub fn kind(&self) -> &str {
        &self.kind
    }
}

impl Serialize for LedgerEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (_, fields) = self.fact.event();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &self.kind)?;
        for (name, value) in fields.as_object().into_iter().flatten() {
            if !value.is_null() {
                map.serialize_entry(&camel_case(name), value)?;
            }
        }
        map.end()
    }
}

impl From<&Fact> for Event {
    /// Converts a fact. A claim is `task:start`, a completion `task:complete`, a failure
    /// `task:failed` and a checkpoint `task:checkpoint`. Every other fact is an event `ledger:*`.
    fn from(fact: &Fact) -> Self {
        match fact {
            Fact::Claimed { task, epoch, .. } => {
                Self::TaskStart { task_id: task.to_string(), epoch: Some(*epoch) }
            }
            Fact::Completed { task, commit, .. } => Self::TaskComplete {
                task_id: task.to_string(),
                result: commit.as_ref().map(|commit| json!({ "commit": commit })),
            },
            Fact::Failed { task, category, message, .. } => Self::TaskFailed {
                task_id: task.to_string(),
                error: format!("[{category}] {message}"),
                stack: None,
            },
            Fact::Checkpointed { task, step, total, description } => Self::TaskCheckpoint {
                task_id: task.clone(),
                step: *step,
                total: *total,
                description: description.clone(),
            },
            other => Self::Ledger(LedgerEvent {
                kind: format!("ledger:{}", other.event().0),
                fact: Arc::new(other.clone()),
            }),
        }
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use harness_core::{Flag, TaskId};

    use super::*;

    #[test]
    fn a_fact_without_an_event_of_its_own_is_one_of_the_ledger() {
        let task = TaskId::numbered(1);
        for (fact, wire) in [
            (
                Fact::Added { task: task.clone(), title: "T".into() },
                json!({"type":"ledger:task_add","taskId":"task-001","title":"T"}),
            ),
            (
                Fact::GatePassed { phase: "Build".into(), by: Some("ann".into()) },
                json!({"type":"ledger:gate_pass","phase":"Build","approvedBy":"ann"}),
            ),
            (
                Fact::Flagged { task: None, flag: Flag::Edit, message: "m".into() },
                json!({"type":"ledger:flag","flag":"edit","message":"m"}),
            ),
            (
                Fact::Checkpointed { task, step: 1, total: 2, description: "half".into() },
                json!({"type":"task:checkpoint","taskId":"task-001","step":1,"total":2,
                    "description":"half"}),
            ),
        ] {
            let event = Event::from(&fact);
            let written = serde_json::to_value(&event).unwrap();
            assert_eq!(written, wire);
            assert_eq!(written["type"], event.kind());
            // Another program reads an unknown event as a custom one.
            assert_eq!(serde_json::from_value::<Event>(written).unwrap().kind(), event.kind());
        }
    }
}
