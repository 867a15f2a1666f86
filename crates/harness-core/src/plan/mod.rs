//! Plans: what an orchestrator writes, what becomes a ledger.
//!
//! Owns the way from any text to a checked [`Plan`] and back. What an import does to a ledger that
//! already exists (refuse, replace, merge) is decided elsewhere.

mod export;
mod extract;
mod graph;
mod json;
mod of_ledger;
mod payload;

use indexmap::IndexMap;

pub use extract::extract;

use crate::TaskId;

/// A plan, in the order in which it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What all of it is for.
    pub goal: String,
    /// By their ids.
    pub tasks: IndexMap<TaskId, PlanTask>,
    /// What was left out on reading, for the person who wrote it. Never exported.
    pub warnings: Vec<String>,
}

/// A task as a plan has it. What was not given is `None`, so that defaults stay the ledger's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanTask {
    /// The title of the task.
    pub description: String,
    /// `depends_on` in the ledger.
    pub dependencies: Vec<TaskId>,
    /// How long an attempt may take.
    pub timeout_seconds: Option<u64>,
    /// For the agent.
    pub instructions: Option<String>,
    /// Who may work on it.
    pub role: Option<String>,
    /// `P0`, `P1` or `P2`.
    pub priority: Option<String>,
    /// How it is checked.
    pub validation: Option<PlanValidation>,
    /// `on_failure.cleanup`.
    pub cleanup: Option<String>,
    /// The name of a phase.
    pub phase: Option<String>,
    /// See [`Task::max_attempts`](crate::Task::max_attempts).
    pub max_attempts: Option<u32>,
}

/// The check of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanValidation {
    /// A line for `sh -c`.
    pub command: String,
    /// How long it may take.
    pub timeout_seconds: Option<u64>,
}

/// Why a text is not a plan. The texts are part of the wire protocol.
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
    /// Reads a plan that stands by itself: block, payload and graph.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let plan = Self::read(text)?;
        plan.check_graph(|_| false)?;
        Ok(plan)
    }

    /// Reads block and payload only. A plan that is merged may depend on tasks that only the
    /// ledger knows, so the caller follows with [`check_graph`](Self::check_graph).
    pub fn read(text: &str) -> Result<Self, PlanError> {
        if text.is_empty() {
            return Err(PlanError::Empty);
        }
        payload::plan(extract::locate(text)?.1)
    }
}

#[cfg(test)]
mod tests;
