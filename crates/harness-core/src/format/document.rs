//! The text of the file, kept beside the ledger between two writes.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde_json::Value;

use super::{object::Object, patch, pretty::pretty};
use crate::{
    TaskId,
    command::{Change, Row},
    ledger::Ledger,
};

/// How deep a task lies in the file.
const TASK_DEPTH: usize = 2;

/// The text of a ledger, task by task, so that a write changes only what changed and keeps fields that
/// we do not know.
#[derive(Debug, Clone)]
pub struct Document {
    /// The root object, with a null where the tasks are.
    fields: Object,
    tasks: IndexMap<TaskId, Text>,
}

#[derive(Debug, Clone)]
enum Text {
    /// As somebody wrote it.
    Read(Box<str>),
    /// Indented as we write it.
    Written(Box<str>),
}

impl Text {
    fn json(&self) -> &str {
        match self {
            Self::Read(json) | Self::Written(json) => json,
        }
    }
}

impl Document {
    /// A file that does not exist yet.
    pub fn new(ledger: &Ledger) -> Self {
        let mut document = Self { fields: patch::new_root(), tasks: IndexMap::new() };
        for task in ledger.tasks() {
            let text = render(&patch::task(Object::default(), task));
            document.tasks.insert(task.id.clone(), Text::Written(text.into()));
        }
        document
    }

    pub(super) fn read<'a>(fields: Object, tasks: impl Iterator<Item = (TaskId, &'a str)>) -> Self {
        Self { fields, tasks: tasks.map(|(id, text)| (id, Text::Read(text.into()))).collect() }
    }

    /// Follows a change that was put into the ledger.
    pub fn put_in(&mut self, change: &Change) {
        let dropped = change.rows.iter().filter(|r| matches!(r, Row::Drop(_))).count();
        if dropped > 0 && dropped == self.tasks.len() {
            self.tasks.clear();
        }
        for row in &change.rows {
            match row {
                Row::Put(task) => {
                    let before = self.tasks.get(&task.id).map(Text::json);
                    let fields = before.and_then(|json| serde_json::from_str::<Object>(json).ok());
                    let json = render(&patch::task(fields.unwrap_or_default(), task));
                    self.tasks.insert(task.id.clone(), Text::Written(json.into()));
                }
                Row::Drop(id) => {
                    self.tasks.shift_remove(id);
                }
            }
        }
    }

    /// The whole file. `ledger` gives the head; the tasks are already here.
    pub fn render(&mut self, ledger: &Ledger) -> String {
        debug_assert!(ledger.tasks().map(|t| &t.id).eq(self.tasks.keys()));
        patch::head(&mut self.fields, ledger.head());
        let size: usize = self.tasks.values().map(|t| t.json().len() + 8).sum();
        let mut out = String::with_capacity(size + 4096);
        out.push('{');
        for (n, (key, value)) in self.fields.iter().enumerate() {
            out.push_str(if n == 0 { "\n  " } else { ",\n  " });
            out.push_str(&Value::from(key).to_string());
            out.push_str(": ");
            if key == "tasks" {
                render_tasks(&mut self.tasks, &mut out);
            } else {
                pretty(value, 1, &mut out);
            }
        }
        out.push_str("\n}\n");
        out
    }

    /// The text of one task, as it is in the file.
    pub fn task(&self, id: &TaskId) -> Option<Cow<'_, str>> {
        self.tasks.get(id).map(|t| Cow::Borrowed(t.json()))
    }
}

fn render_tasks(tasks: &mut IndexMap<TaskId, Text>, out: &mut String) {
    if tasks.is_empty() {
        out.push_str("[]");
        return;
    }
    out.push('[');
    for (n, text) in tasks.values_mut().enumerate() {
        out.push_str(if n == 0 { "\n    " } else { ",\n    " });
        let start = out.len();
        match text {
            Text::Written(json) => out.push_str(json),
            Text::Read(json) => {
                pretty(json, TASK_DEPTH, out);
                *text = Text::Written(out[start..].into());
            }
        }
    }
    out.push_str("\n  ]");
}

fn render(task: &Object) -> String {
    let mut out = String::new();
    pretty(&task.json(), TASK_DEPTH, &mut out);
    out
}
