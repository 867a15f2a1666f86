//! What a decision makes true.

use indexmap::IndexMap;

use super::Claimed;
use crate::{
    TaskId, Timestamp,
    fact::Fact,
    ledger::{Head, Ledger},
    task::Task,
};

/// The touched rows, what there is to tell of them, and the answer. Never a whole ledger.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Change {
    pub head: Option<Head>,
    pub rows: Vec<Row>,
    pub facts: Vec<Fact>,
    pub reply: Reply,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    Put(Box<Task>),
    Drop(TaskId),
}

impl Row {
    pub(super) fn put(task: Task) -> Self {
        Self::Put(Box::new(task))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Task(TaskId),
    Claimed(Box<Claimed>),
    NothingToClaim,
    Lease { task: TaskId, expires_at: Timestamp },
    Failed { task: TaskId, retryable: bool },
    Imported { goal: String, task_count: usize, warnings: Vec<String> },
    Reset { task_count: usize },
    Session { number: u64 },
    Noted,
}

impl Change {
    pub(super) fn reply(reply: Reply) -> Self {
        Self { head: None, rows: Vec::new(), facts: Vec::new(), reply }
    }

    pub(super) fn put(task: Task, fact: Fact, reply: Reply) -> Self {
        Self { head: None, rows: vec![Row::put(task)], facts: vec![fact], reply }
    }

    /// Whether there is anything to write.
    pub fn is_empty(&self) -> bool {
        self.head.is_none() && self.rows.is_empty()
    }

    /// Whether the ledger as it was must be kept before this is written.
    pub fn archives(&self) -> bool {
        self.facts.iter().any(|f| matches!(f, Fact::PlanReplaced { .. } | Fact::PlanReset { .. }))
    }
}

/// A change in the making: the ledger with some of its tasks already edited.
pub(super) struct Draft<'a> {
    ledger: &'a Ledger,
    edited: IndexMap<TaskId, Task>,
    pub(super) facts: Vec<Fact>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(ledger: &'a Ledger) -> Self {
        Self { ledger, edited: IndexMap::new(), facts: Vec::new() }
    }

    pub(super) fn task(&self, id: &TaskId) -> Option<&Task> {
        self.edited.get(id).or_else(|| self.ledger.task(id))
    }

    pub(super) fn edit(&mut self, id: &TaskId, f: impl FnOnce(&mut Task)) {
        if let Some(mut task) = self.task(id).cloned() {
            f(&mut task);
            self.edited.insert(id.clone(), task);
        }
    }

    pub(super) fn finish(self, reply: Reply) -> Change {
        let rows = self.edited.into_values().map(Row::put).collect();
        Change { head: None, rows, facts: self.facts, reply }
    }
}
