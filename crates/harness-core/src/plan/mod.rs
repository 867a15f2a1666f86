//! Plans: an orchestrator writes them, and an import turns them into a ledger.
//!
//! This module converts any text into a checked [`Plan`] and back. The import command decides what
//! happens to a ledger that already exists (refuse, replace, merge).

mod export;
mod extract;
mod graph;
mod json;
mod of_ledger;
mod payload;

use indexmap::IndexMap;

pub use extract::extract;

use crate::{
    TaskId,
    task::{TaskSource, problem_of_title},
};

/// A plan, in the order in which it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The goal of the whole plan.
    pub goal: String,
    /// The tasks by their ids.
    pub tasks: IndexMap<TaskId, PlanTask>,
    /// The phases in their order. `None` leaves those of the ledger as they are.
    pub phases: Option<Vec<PlanPhase>>,
    /// The parts that were left out on reading, for the author of the plan. They are never
    /// exported.
    pub warnings: Vec<String>,
}

/// A task of a plan. Missing fields are `None`, so that the ledger's defaults apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanTask {
    /// The title of the task.
    pub description: String,
    /// `depends_on` in the ledger.
    pub dependencies: Vec<TaskId>,
    /// The time limit of an attempt.
    pub timeout_seconds: Option<u64>,
    /// The instructions for the agent.
    pub instructions: Option<String>,
    /// The role of the workers that may claim it.
    pub role: Option<String>,
    /// The labels that a worker must have to claim it.
    pub requires: Vec<String>,
    /// `P0`, `P1` or `P2`.
    pub priority: Option<String>,
    /// The check of the task.
    pub validation: Option<PlanValidation>,
    /// `on_failure.cleanup`.
    pub cleanup: Option<String>,
    /// Globs of the files that its attempts must not change.
    pub protected: Vec<String>,
    /// The name of a phase.
    pub phase: Option<String>,
    /// See [`Task::max_attempts`](crate::Task::max_attempts).
    pub max_attempts: Option<u32>,
    /// The source that it was imported from.
    pub source: Option<TaskSource>,
    /// `true` if it was completed before it came into a ledger. It has no check then.
    pub completed: bool,
}

impl PlanTask {
    /// Returns the check; `None` if there is none, or if it is empty.
    pub fn check(&self) -> Option<&str> {
        let command = self.validation.as_ref().map(|validation| validation.command.trim());
        command.filter(|command| !command.is_empty())
    }
}

/// The check of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanValidation {
    /// A line for `sh -c`.
    pub command: String,
    /// The time limit of the check.
    pub timeout_seconds: Option<u64>,
    /// `true` if the check runs in a clean checkout of the commit.
    pub clean: Option<bool>,
    /// `true` if the check also runs before the first attempt.
    pub baseline: Option<bool>,
}

/// A phase of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanPhase {
    /// The name by which tasks refer to the phase.
    pub name: String,
    /// The command that must pass at the end of the phase.
    pub gate: Option<String>,
    /// The time limit of the gate.
    pub gate_timeout_seconds: Option<u64>,
    /// `true` if a person must approve the phase too.
    pub approve: bool,
}

/// The reason why a text is not a plan. The messages are part of the wire protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what it means")]
pub enum PlanError {
    #[error("content required")]
    Empty,
    #[error("No JSON plan block found")]
    NoBlock,
    #[error("Invalid JSON: {0}")]
    InvalidJson(String),
    #[error("{path}: {problem}")]
    Field { path: String, problem: String },
    #[error("Missing dependency: {dependency} (in {task})")]
    MissingDependency { dependency: TaskId, task: TaskId },
    #[error("Cycle detected at {0}")]
    Cycle(TaskId),
}

impl Plan {
    /// Parses a self-contained plan: block, payload and graph.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let plan = Self::read(text)?;
        plan.check_graph(|_| false)?;
        Ok(plan)
    }

    /// Refuses descriptions that cannot be the title of a new task. Plans of earlier ledgers may have
    /// them, so reading a plan does not refuse them.
    pub fn check_titles(&self) -> Result<(), PlanError> {
        let mut problems = self.tasks.iter().filter_map(|(id, task)| {
            let problem = problem_of_title(&task.description)?;
            Some(PlanError::Field { path: format!("tasks.{id}.description"), problem })
        });
        problems.next().map_or(Ok(()), Err)
    }

    /// Parses block and payload only. A merged plan may depend on tasks that only the ledger has,
    /// so the caller must call [`check_graph`](Self::check_graph) next.
    pub fn read(text: &str) -> Result<Self, PlanError> {
        if text.is_empty() {
            return Err(PlanError::Empty);
        }
        payload::plan(extract::locate(text)?.1)
    }
}

#[cfg(test)]
mod tests;
