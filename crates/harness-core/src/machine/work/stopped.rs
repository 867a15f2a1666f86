//! Why a session ended.

use crate::{TaskId, WorkerId};

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// Nothing is left that could be worked on.
    Complete,
    /// The same, but something has to be looked at: an alert was raised, or a claim was lost.
    Alerted,
    /// A task is in progress, and this session does not work on it. The next one recovers it.
    InProgress(TaskId),
    /// `max_tasks` is reached, with [`Runs::Once`].
    Once,
    /// The ledger allows no further session.
    MaxSessions,
    /// Somebody asked for it.
    Interrupted,
    /// The init script, the agent or a check cannot be run here; in words.
    EnvSetup(String),
    /// A person has to change a setting or a task; in words.
    Config(String),
    /// Changes that nobody accounts for, by file. Nothing was begun.
    Dirty(Vec<String>),
    /// A client is at work in the same tree. Nothing was begun.
    Client {
        /// What it holds.
        task: TaskId,
        /// Who it is.
        worker: WorkerId,
    },
    /// The agent's rate or usage limit; in words.
    Limit(String),
    /// What the run may use was used; in words.
    Budget(String),
    /// The gate of a phase is closed.
    Gate {
        /// Its name.
        phase: String,
        /// In words.
        why: String,
    },
}
