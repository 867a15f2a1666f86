//! The fields of a request, parsed with the published error messages.

use harness_core::{Epoch, Holder, TaskId, WorkerId};
use serde_json::{Map, Value};

/// Fields by name. A null counts as absent.
#[derive(Debug, Clone)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn new(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    pub(super) fn into_map(self) -> Map<String, Value> {
        self.0
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("{name} must be a string")),
        }
    }

    pub(super) fn required(&self, name: &str) -> Result<String, String> {
        self.text(name)?.ok_or_else(|| format!("{name} is required"))
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

    pub(super) fn decimal(&self, name: &str) -> Result<Option<f64>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => Err(format!("{name} must be a number")),
            },
        }
    }

    pub(super) fn small(&self, name: &str) -> Result<Option<u32>, String> {
        let number = self.number(name)?.map(u32::try_from).transpose();
        number.map_err(|_| format!("{name} is too large"))
    }

    pub(super) fn required_small(&self, name: &str) -> Result<u32, String> {
        self.small(name)?.ok_or_else(|| format!("{name} is required"))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, String> {
        Ok(self.optional_flag(name)?.unwrap_or_default())
    }

    pub(super) fn optional_flag(&self, name: &str) -> Result<Option<bool>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(format!("{name} must be true or false")),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let wrong = || format!("{name} must be a list of strings");
        let Some(value) = self.get(name) else { return Ok(None) };
        let items = value.as_array().ok_or_else(wrong)?.iter();
        items
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Returns `content`, which must not be empty.
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
