//! Adds a task at the end of the ledger.

use serde::{Deserialize, Serialize};

use super::{Change, Edit, Refusal, Reply, Row};
use crate::{TaskId, fact::Fact, ledger::Ledger, role::Author, task::Task};

/// Adds a task. Its fields are those of an edit of an empty task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Add {
    /// The id; `None` for `task-NNN`, one above the highest.
    pub id: Option<TaskId>,
    /// The title, which must not be empty.
    pub title: String,
    /// All other fields. Its `task` and `title` are ignored.
    pub fields: Edit,
}

impl Add {
    /// Adds a task with this title, a numbered id and no check. Other fields can be set in
    /// `fields`.
    pub fn new(title: impl Into<String>) -> Self {
        Self { id: None, title: title.into(), fields: Edit::nothing(TaskId::numbered(0)) }
    }

    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let id = self.id.clone().unwrap_or_else(|| {
            let above = ledger.next_number()..;
            let mut ids = above.map(TaskId::numbered);
            ids.find(|id| !ledger.contains(id)).unwrap_or_else(|| TaskId::numbered(0))
        });
        if ledger.contains(&id) {
            return Err(Refusal::Exists { task: id });
        }
        let mut task = Task::new(id.clone(), "");
        let fields =
            Edit { task: id.clone(), title: Some(self.title.clone()), ..self.fields.clone() };
        fields.put_into(&mut task, ledger)?;
        task.added_by = self.fields.by.as_ref().and_then(Author::mark);
        Ok(Change {
            head: None,
            rows: vec![Row::put(task)],
            facts: vec![Fact::Added { task: id.clone(), title: self.title.clone() }],
            reply: Reply::Task(id),
        })
    }
}
