//! The items of a ledger.

use std::collections::BTreeMap;

use harness_core::trust::{Item, Kind, Origin};
use serde_json::{Value, value::RawValue};

use super::{WouldRun, item, list};

/// Returns the items of the text of a ledger. Tasks are read one after the other: all of them together,
/// as values, would need many times the memory of the file.
pub(super) fn items(bytes: &[u8]) -> serde_json::Result<WouldRun> {
    let Ok(ledger) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(bytes) else {
        // It is no object, or no JSON.
        return Ok(of_value(&serde_json::from_slice(bytes)?));
    };
    let mut found = Runnable::default();
    for (name, text) in ledger {
        let rows = serde_json::from_str::<Vec<&RawValue>>(text.get());
        match (name.as_str(), rows) {
            ("tasks", Ok(rows)) => {
                for row in rows {
                    found.task(&serde_json::from_str(row.get())?);
                }
            }
            ("phases", Ok(rows)) => {
                for row in rows {
                    found.phase(&serde_json::from_str(row.get())?);
                }
            }
            // A ledger that is no JSON is replaced by its backup, so everything is looked at.
            _ => drop(serde_json::from_str::<Value>(text.get())?),
        }
    }
    Ok(found.items())
}

fn of_value(ledger: &Value) -> WouldRun {
    let mut found = Runnable::default();
    list(&ledger["tasks"]).iter().for_each(|task| found.task(task));
    list(&ledger["phases"]).iter().for_each(|phase| found.phase(phase));
    found.items()
}

/// The items by their purpose.
#[derive(Default)]
struct Runnable {
    checks: Vec<Item>,
    cleanups: Vec<Item>,
    gates: Vec<Item>,
    instructions: Vec<Item>,
}

impl Runnable {
    fn task(&mut self, task: &Value) {
        self.checks.extend(of(Kind::Check, task, &task["validation"]["command"]));
        self.cleanups.extend(of(Kind::Cleanup, task, &task["on_failure"]["cleanup"]));
        self.instructions.extend(of(Kind::Instructions, task, &task["instructions"]));
    }

    fn phase(&mut self, phase: &Value) {
        self.gates.extend(of(Kind::Gate, phase, &phase["gate"]["command"]));
    }

    fn items(self) -> WouldRun {
        let Self { checks, cleanups, gates, instructions } = self;
        WouldRun::distinct([checks, cleanups, gates, instructions].into_iter().flatten().collect())
    }
}

/// Returns the item of a text, if it is one. What an import brought has a source.
fn of(kind: Kind, holder: &Value, text: &Value) -> Option<Item> {
    let text = text.as_str().filter(|text| !text.is_empty())?;
    let origin = if holder["source"].is_object() { Origin::Import } else { Origin::File };
    Some(Item { origin, ..item(kind, text) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn each_command_is_named_once() {
        let ledger = json!({
            "tasks": [
                {"validation": {"command": "make test"}, "on_failure": {"cleanup": "make clean"}},
                {"validation": {"command": "make test"}, "instructions": "do it"},
                {"validation": {"command": "make lint"}},
                {"validation": null},
                "not a task",
            ],
            "phases": [{"name": "Build", "gate": {"command": "make gate"}}, {"name": "Rest"}],
        });
        let found = of_value(&ledger);
        assert_eq!(found.shown(Kind::Check), ["make test", "make lint"]);
        assert_eq!(found.shown(Kind::Cleanup), ["make clean"]);
        assert_eq!(found.shown(Kind::Gate), ["make gate"]);
        assert_eq!(found.shown(Kind::Instructions), ["do it"]);
        assert_eq!(of_value(&json!([])), WouldRun::default());
        assert_eq!(items(ledger.to_string().as_bytes()).unwrap(), found);
    }

    /// What is read task by task is what is read as a whole, whatever the shape.
    #[test]
    fn a_text_of_any_shape_has_the_same_items_as_its_values() {
        for text in [
            "[]",
            "3",
            "{}",
            r#"{"tasks": 3, "phases": {}}"#,
            r#"{"tasks": [1, "a", null, [], {"validation": "x", "instructions": 7}]}"#,
            r#"{"tasks": [{"instructions": "a", "instructions": "b", "validation": {"command": "c"}}]}"#,
            r#"{"tasks": [{"instructions": "a"}], "tasks": [{"instructions": "b", "source": {}}]}"#,
            r#"{"phases": [{"gate": {"command": "g"}, "source": {}}, 4]}"#,
        ] {
            let whole = of_value(&serde_json::from_str(text).unwrap());
            assert_eq!(items(text.as_bytes()).unwrap(), whole, "{text}");
        }
        for text in [
            "",
            "{",
            "{\"tasks\": [}",
            "{} x",
            r#"{"tasks": [{"instructions": "\x"}]}"#,
            // What is not used must be JSON too: a ledger that is none is replaced by its backup.
            r#"{"tasks": [{"title": "\ud800"}]}"#,
            r#"{"other": 1e999}"#,
        ] {
            assert!(items(text.as_bytes()).is_err(), "{text}");
        }
    }
}
