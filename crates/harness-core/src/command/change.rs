//! The result of a decision.

use serde::{Deserialize, Serialize};

use indexmap::IndexMap;

use super::{Claimed, ImportedTasks};
use crate::{
    TaskId, Timestamp,
    fact::Fact,
    ledger::{Head, Ledger, Row},
    task::Task,
};

/// The touched rows, the facts about them, and the answer. It never contains a whole ledger.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Change {
    /// The new head; `None` if it is unchanged.
    pub head: Option<Head>,
    /// The changed rows, in the order in which they are applied.
    pub rows: Vec<Row>,
    /// The facts that became true, in order.
    pub facts: Vec<Fact>,
    /// The answer for the sender of the command.
    pub reply: Reply,
}

/// The answer to a command that was not refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Reply {
    /// The task that the command was about.
    Task(TaskId),
    /// The answer to a claim that got a task.
    Claimed(Box<Claimed>),
    /// The answer to a claim while no task can be worked on.
    NothingToClaim,
    /// The answer to a checkpoint or a renewal: the new end of the lease.
    Lease {
        task: TaskId,
        expires_at: Timestamp,
    },
    /// The answer to a failure: whether the task will be tried again.
    Failed {
        task: TaskId,
        retryable: bool,
    },
    /// The answer to an import. `task_count` counts the tasks that were taken from the plan.
    Imported {
        goal: String,
        task_count: usize,
        warnings: Vec<String>,
        /// What an update did.
        tasks: Option<Box<ImportedTasks>>,
    },
    /// The answer to a reset. `task_count` counts the removed tasks.
    Reset {
        task_count: usize,
    },
    /// The answer to the reopening of tasks. `dependents` are completed and depend on them.
    Reopened {
        tasks: Vec<TaskId>,
        dependents: Vec<TaskId>,
    },
    /// The answer to the start or end of a session: the N of `SESSION-N`.
    Session {
        number: u64,
    },
    Noted,
    /// The answer to a report of usage: the total that the budget of the run has paid.
    #[serde(skip)]
    Spent(crate::agent::Usage),
}

impl Change {
    pub(super) fn reply(reply: Reply) -> Self {
        Self { head: None, rows: Vec::new(), facts: Vec::new(), reply }
    }

    pub(super) fn put(task: Task, fact: Fact, reply: Reply) -> Self {
        Self { head: None, rows: vec![Row::put(task)], facts: vec![fact], reply }
    }

    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.head.is_none() && self.rows.is_empty()
    }

    /// Returns whether the previous ledger must be archived before this is written.
    pub fn archives(&self) -> bool {
        self.facts.iter().any(|f| matches!(f, Fact::PlanReplaced { .. } | Fact::PlanReset { .. }))
    }
}

impl Ledger {
    /// Applies `change` to this ledger.
    pub fn put_in(&mut self, change: &Change) {
        self.put_rows(change.head.as_ref(), &change.rows);
    }
}

/// A change under construction: the ledger with some of its tasks already edited.
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
