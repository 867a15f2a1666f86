//! Plans, as `harness plan import` reads them.

use serde_json::Value;

use super::{
    document,
    node::{
        Field, Others,
        Presence::{Nullable, Optional, Required},
        object,
    },
};

const FIELDS: &[(&str, &str, super::node::Presence, &str)] = &[
    ("goal", "text", Required, "What the tasks are for"),
    (
        "phases",
        "objects",
        Nullable,
        "Stages in order; a task of a later phase waits for the earlier ones",
    ),
    ("phases[].name", "text", Required, "The name of the phase"),
    ("phases[].gate", "object", Nullable, "A check that opens the next phase"),
    ("phases[].gate.command", "text", Required, "The command, run by `sh -c`"),
    ("phases[].gate.timeout_seconds", "seconds", Optional, "Its time limit; 600 if absent"),
    ("phases[].approve", "boolean", Nullable, "Whether a person opens the next phase"),
    ("tasks", "objects by id", Required, "The tasks by their ids, in this order"),
    ("tasks{}.description", "text", Required, "One line that says what is to be done"),
    ("tasks{}.dependencies", "list of id", Optional, "Ids of tasks that must be completed first"),
    ("tasks{}.timeout_seconds", "seconds", Optional, "How long one attempt may take"),
    ("tasks{}.instructions", "text", Nullable, "The instructions for the worker"),
    (
        "tasks{}.role",
        "text",
        Nullable,
        "Only workers of this role, or that name none, get the task",
    ),
    (
        "tasks{}.requires",
        "list of text",
        Nullable,
        "Labels that a worker must have to claim the task",
    ),
    ("tasks{}.priority", "P0 or P1 or P2", Nullable, "P0 first; P1 if absent"),
    ("tasks{}.phase", "text", Nullable, "The name of one of the phases"),
    ("tasks{}.max_attempts", "count", Nullable, "How often it is tried; 3 if absent"),
    ("tasks{}.source", "object", Nullable, "The place that `harness import` took it from"),
    ("tasks{}.source.kind", "text", Required, "The format, such as `openspec`"),
    ("tasks{}.source.path", "text", Nullable, "The file, or the repository"),
    ("tasks{}.source.key", "text", Required, "The name of the task there"),
    (
        "tasks{}.completed",
        "boolean",
        Nullable,
        "It was done before it came here; it has no validation then",
    ),
    ("tasks{}.validation", "object", Nullable, "The check that proves that the task is done"),
    ("tasks{}.validation.command", "text", Required, "Run by `sh -c`; exit 0 is the proof"),
    ("tasks{}.validation.timeout_seconds", "seconds", Optional, "Its time limit; 300 if absent"),
    (
        "tasks{}.validation.clean",
        "boolean",
        Nullable,
        "Judge a clean checkout of the commit, not the work tree",
    ),
    (
        "tasks{}.validation.baseline",
        "boolean",
        Nullable,
        "Run the check before the first attempt too",
    ),
    (
        "tasks{}.protected",
        "list of text",
        Nullable,
        "Globs of files that an attempt must not change",
    ),
    ("tasks{}.on_failure", "object", Nullable, "What happens after a failed attempt"),
    ("tasks{}.on_failure.cleanup", "text", Nullable, "A command to run after a rollback"),
];

pub(super) fn schema() -> Result<Value, String> {
    let field = |(path, kind, presence, meaning): &(&str, &'static str, _, &str)| Field {
        path: (*path).to_owned(),
        kind,
        presence: *presence,
        meaning: (*meaning).to_owned(),
    };
    let fields: Vec<_> = FIELDS.iter().map(field).collect();
    let schema = object(&fields, Others::Refused)?;
    Ok(document("harness plan", "A plan, as `harness plan import` reads it", schema))
}
