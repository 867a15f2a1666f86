//! A request with its address, as a line.

use std::{borrow::Cow, path::Path};

use harness_core::{
    command::Code,
    role::{Operation, Role},
};
use serde_json::{Map, Value};

use super::{Refused, Request, Verb, fields::Fields};
use crate::process::Redactor;

/// Fields that are ids or command lines. The store refuses a command line that contains a secret,
/// because it would do something else with the secret replaced.
const NOT_PROSE: [&str; 8] =
    ["command", "root", "task_id", "worker_id", "prompt_id", "run_id", "validate", "cleanup"];

/// The field that says that a request is for one process only.
pub(crate) const PASSED_ON: &str = "passed_on";

/// One line of a client, whose fields are parsed on demand. A wrong address is reported before a
/// wrong request.
#[derive(Debug, Clone)]
pub struct Call {
    command: String,
    fields: Fields,
}

impl Call {
    /// Parses a line and removes secrets from it. Command lines are left to the store, which
    /// refuses them.
    pub fn parse(line: &[u8], secrets: &Redactor) -> Result<Self, Refused> {
        let text = std::str::from_utf8(line).map_err(|_| "Invalid UTF-8")?;
        let mut value: Value =
            serde_json::from_str(text).map_err(|why| format!("Invalid JSON: {why}"))?;
        hide(&mut value, secrets);
        let Value::Object(fields) = value else {
            return Err("A request is a JSON object".into());
        };
        match fields.get("command") {
            Some(Value::String(command)) if !command.is_empty() => {
                Ok(Self { command: command.clone(), fields: Fields::new(fields) })
            }
            _ => Err("Missing command".into()),
        }
    }

    /// Returns the line that sends `request` to the host of `root`, in the role `speaks_as` if it
    /// is less than the client's own.
    pub fn line(request: &Request, root: &Path, speaks_as: Option<Role>) -> Map<String, Value> {
        let mut line = match serde_json::to_value(request) {
            Ok(Value::Object(line)) => line,
            // All requests are structs of plain values.
            Ok(_) | Err(_) => Map::new(),
        };
        line.insert("root".to_owned(), root.display().to_string().into());
        if let Some(role) = speaks_as {
            line.insert("as".to_owned(), role.name().into());
        }
        line
    }

    /// Returns a request to this process.
    #[cfg(feature = "postgres")]
    pub(crate) fn of(request: &Request, root: &Path) -> Self {
        let command = request.verb().name().to_owned();
        Self { command, fields: Fields::new(Self::line(request, root, None)) }
    }

    /// Returns the root that the client names, if any.
    pub fn root(&self) -> Result<Option<String>, Refused> {
        Ok(self.fields.text("root")?)
    }

    /// Returns the lesser role that the client names, if any.
    pub fn speaks_as(&self) -> Result<Option<Role>, Refused> {
        match self.fields.text("as")?.as_deref() {
            None => Ok(None),
            Some("worker") => Ok(Some(Role::Worker)),
            Some("agent") => Ok(Some(Role::Agent)),
            Some(other) => Err(format!("as: {other:?} is not one of worker, agent").into()),
        }
    }

    /// Returns whether another process has passed it on, or asks all others itself. It is then answered
    /// for this process only.
    pub(crate) fn is_passed_on(&self) -> bool {
        self.fields.flag(PASSED_ON).unwrap_or_default()
    }

    /// Returns the line that passes it on to another process. The caller's role was checked before.
    pub(crate) fn to_pass_on(&self) -> Value {
        let mut fields = self.fields.clone().into_map();
        fields.remove("as");
        fields.insert(PASSED_ON.to_owned(), true.into());
        Value::Object(fields)
    }

    /// Returns the verb, if this version knows it.
    pub fn verb(&self) -> Result<Verb, Refused> {
        Verb::parse(&self.command).ok_or_else(|| {
            Refused::new(Code::UnknownCommand, format!("Unknown command: {}", self.command))
        })
    }

    /// Returns the operation of a request whose other fields cannot be parsed.
    pub fn operation(&self) -> Result<Operation, Refused> {
        Ok(match self.verb()? {
            Verb::TaskComplete if self.fields.flag("force")? => Operation::ForceComplete,
            Verb::PlanImport if self.fields.flag("replace")? => Operation::ReplacePlan,
            Verb::PlanImport if self.fields.flag("merge")? => Operation::MergePlan,
            verb => verb.operation(),
        })
    }

    /// Parses the request, or returns the error of its fields.
    pub fn request(&self) -> Result<Request, Refused> {
        Ok(Request::read(self.verb()?, &self.fields)?)
    }
}

/// Removes secrets from a request, before it is sent and where it arrives. The plan of an import is
/// unchanged, and so are the commands of a worker: the store removes them from their texts and refuses
/// their command lines.
pub fn hide(request: &mut Value, secrets: &Redactor) {
    if request["command"] == Verb::WorkerTransaction.name() {
        return;
    }
    let is_import = request["command"] == Verb::PlanImport.name();
    let Some(fields) = request.as_object_mut() else { return };
    for (name, value) in fields {
        let is_plan = is_import && name == "content";
        if !is_plan && !NOT_PROSE.contains(&name.as_str()) {
            hide_in(value, secrets);
        }
    }
}

fn hide_in(value: &mut Value, secrets: &Redactor) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(hidden) = secrets.text(text) {
                *text = hidden;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide_in(item, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|field| hide_in(field, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
