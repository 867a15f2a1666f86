//! What a client asks: a command and its fields, taken out with words for what is wrong.

use harness_core::{Epoch, Holder, TaskId, WorkerId};
use serde_json::{Map, Value};

use super::wire::{self, Refused};
use crate::process::Redactor;

/// What a handler answers: data, or why not.
pub(super) type Answer = Result<Value, Refused>;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) command: String,
    fields: Map<String, Value>,
}

impl Request {
    /// Nothing behind this sees a secret, command lines aside: the store refuses those.
    pub(super) fn parse(line: &[u8], secrets: &Redactor) -> Result<Self, Refused> {
        let text = std::str::from_utf8(line).map_err(|_| "Invalid UTF-8")?;
        let mut value: Value =
            serde_json::from_str(text).map_err(|why| format!("Invalid JSON: {why}"))?;
        wire::hide(&mut value, secrets);
        let Value::Object(fields) = value else {
            return Err("A request is a JSON object".into());
        };
        match fields.get("command") {
            Some(Value::String(command)) if !command.is_empty() => {
                Ok(Self { command: command.clone(), fields })
            }
            _ => Err("Missing command".into()),
        }
    }

    /// `None` where it is absent or null.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("{name} must be a string")),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(format!("{name} must be a whole number")),
            },
        }
    }

    pub(super) fn small(&self, name: &str) -> Result<Option<u32>, String> {
        let number = self.number(name)?.map(u32::try_from).transpose();
        number.map_err(|_| format!("{name} is too large"))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, String> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(format!("{name} must be true or false")),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let wrong = || format!("{name} must be a list of strings");
        let Some(value) = self.get(name) else { return Ok(None) };
        let items = value.as_array().ok_or_else(wrong)?.iter();
        items
            .map(|i| i.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// `content`, which may not be empty.
    pub(super) fn content(&self) -> Result<String, String> {
        let content = self.text("content")?.filter(|content| !content.is_empty());
        content.ok_or_else(|| "content required".to_owned())
    }

    pub(super) fn task(&self) -> Result<TaskId, String> {
        let id = self.text("task_id")?.filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| "task_id is required".to_owned())?;
        TaskId::parse(&id).map_err(|why| format!("task_id: {why}"))
    }

    pub(super) fn worker(&self) -> Result<WorkerId, String> {
        let worker = self.text("worker_id")?.filter(|id| !id.is_empty());
        let worker = worker.ok_or_else(|| "worker_id is required".to_owned())?;
        WorkerId::parse(&worker).map_err(|why| format!("worker_id: {why}"))
    }

    pub(super) fn holder(&self) -> Result<Holder, String> {
        let (task, worker) = (self.task()?, self.worker()?);
        Ok(Holder { task, worker, epoch: self.number("epoch")?.map(Epoch) })
    }
}
