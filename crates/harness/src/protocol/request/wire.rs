//! The fields of requests under their names on the wire.

use harness_core::{
    Epoch, Holder, TaskId, WorkerId,
    command::{Add, ConfigureSession, Edit, EditPhase},
};
use serde::{Serialize, Serializer};

/// The fields of a task under their names on the wire. The host determines the author.
#[derive(Serialize)]
struct EditFields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depends_on: Option<&'a Vec<TaskId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validate: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clean: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protected: Option<&'a Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cleanup: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requires: Option<&'a Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a TaskId>,
}

fn edit_fields(of: &Edit) -> EditFields<'_> {
    EditFields {
        priority: of.priority.as_ref(),
        depends_on: of.depends_on.as_ref(),
        validate: of.validation_command.as_ref(),
        timeout: of.validation_timeout_seconds,
        clean: of.validation_clean,
        baseline: of.validation_baseline,
        protected: of.protected.as_ref(),
        attempt_timeout: of.attempt_timeout_seconds,
        max_attempts: of.max_attempts,
        cleanup: of.cleanup.as_ref(),
        instructions: of.instructions.as_ref(),
        role: of.role.as_ref(),
        requires: of.requires.as_ref(),
        phase: of.phase.as_ref(),
        task_id: None,
        title: None,
        id: None,
    }
}

pub(super) fn add<S: Serializer>(of: &Add, s: S) -> Result<S::Ok, S::Error> {
    let fields = edit_fields(&of.fields);
    EditFields { title: Some(&of.title), id: of.id.as_ref(), ..fields }.serialize(s)
}

pub(super) fn edit<S: Serializer>(of: &Edit, s: S) -> Result<S::Ok, S::Error> {
    let fields = edit_fields(of);
    EditFields { task_id: Some(&of.task), title: of.title.as_ref(), ..fields }.serialize(s)
}

pub(super) fn phase<S: Serializer>(of: &EditPhase, s: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Wire<'a> {
        name: &'a String,
        #[serde(skip_serializing_if = "Option::is_none")]
        gate: Option<&'a String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        gate_timeout: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        approve: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<&'a String>,
    }
    let EditPhase { name, gate, gate_timeout_seconds, approve, before, by: _ } = of;
    let (gate, gate_timeout) = (gate.as_ref(), *gate_timeout_seconds);
    Wire { name, gate, gate_timeout, approve: *approve, before: before.as_ref() }.serialize(s)
}

pub(super) fn configure<S: Serializer>(of: &ConfigureSession, s: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Wire<'a> {
        key: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<&'a String>,
    }
    Wire { key: of.key.name(), value: of.value.as_ref() }.serialize(s)
}

pub(super) fn holder<S: Serializer>(holder: &Holder, s: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Wire<'a> {
        task_id: &'a TaskId,
        worker_id: &'a WorkerId,
        #[serde(skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
    }
    let Holder { task, worker, epoch } = holder;
    Wire { task_id: task, worker_id: worker, epoch: *epoch }.serialize(s)
}
