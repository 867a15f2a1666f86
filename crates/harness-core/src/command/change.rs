//! What a decision makes true.

use indexmap::IndexMap;

use super::Claimed;
use crate::{
    TaskId, Timestamp,
    fact::Fact,
    ledger::{Head, Ledger, Row},
    task::Task,
};

/// The touched rows, what there is to tell of them, and the answer. Never a whole ledger.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Change {
    /// The new one; `None` if it stays.
    pub head: Option<Head>,
    /// In the order in which they are to be put in.
    pub rows: Vec<Row>,
    /// What became true, in order.
    pub facts: Vec<Fact>,
    /// What whoever sent the command is told.
    pub reply: Reply,
}

/// The answer to a command that was not refused.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Reply {
    /// The task that it was about.
    Task(TaskId),
    /// To a claim that got one.
    Claimed(Box<Claimed>),
    /// To a claim, while no task can be worked on.
    NothingToClaim,
    /// To a checkpoint or a renewal: how long the claim lasts now.
    Lease {
        task: TaskId,
        expires_at: Timestamp,
    },
    /// To a failure: whether the task will be tried again.
    Failed {
        task: TaskId,
        retryable: bool,
    },
    /// `task_count` is that of the tasks that were taken from the plan.
    Imported {
        goal: String,
        task_count: usize,
        warnings: Vec<String>,
    },
    /// How many tasks are gone.
    Reset {
        task_count: usize,
    },
    /// To the beginning or end of a session: N of `SESSION-N`.
    Session {
        number: u64,
    },
    Noted,
    /// To what a run used: all that its budget has paid.
    Spent(crate::agent::Usage),
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

impl Ledger {
    /// Makes `change` true here.
    pub fn put_in(&mut self, change: &Change) {
        self.put_rows(change.head.as_ref(), &change.rows);
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
