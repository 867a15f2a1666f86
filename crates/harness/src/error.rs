//! Errors of a flow.

use std::{fmt, io};

/// The result of flows and agents.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a flow or an agent failed. Any other error is [`Other`](Error::Other), and a text
/// becomes one by `?` or `into()`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The conversation was ended.
    #[error("Session aborted")]
    Aborted,
    /// No answer came in time.
    #[error("nobody answered within {} s", seconds)]
    NoAnswer {
        /// The time that was waited, rounded down.
        seconds: u64,
    },
    /// A question was asked although no person can answer: `start_session()` was not called.
    #[error("there is no session to ask in")]
    NoSession,
    /// An agent returned an error.
    #[error("agent {agent}: {source}")]
    Agent {
        /// The name of the agent.
        agent: String,
        /// The error that it returned.
        source: Box<Error>,
    },
    /// [`Branch::retry`](crate::Branch::retry) gave up.
    #[error("{what} failed after {tries} tries: {source}")]
    GaveUp {
        /// The name that the flow gave it.
        what: String,
        /// The number of tries.
        tries: u32,
        /// The error of the last try.
        source: Box<Error>,
    },
    /// The ledger could not be read or written.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// A decision of a [driven](crate::Branch::drive) machine could not be made durable.
    #[error(transparent)]
    Commit(std::sync::Arc<crate::store::StoreError>),
    /// The record of runs could not be read or written.
    #[error(transparent)]
    Runs(#[from] crate::store::RunStoreError),
    /// A git operation failed.
    #[error(transparent)]
    Workspace(#[from] crate::workspace::WorkspaceError),
    /// A file or a process failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Any other error of a flow or an agent.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Returns whether the conversation was ended, wherever that was noticed.
    pub fn is_abort(&self) -> bool {
        match self {
            Self::Aborted => true,
            Self::Agent { source, .. } | Self::GaveUp { source, .. } => source.is_abort(),
            Self::NoAnswer { .. }
            | Self::NoSession
            | Self::Store(_)
            | Self::Commit(_)
            | Self::Runs(_)
            | Self::Workspace(_)
            | Self::Io(_)
            | Self::Other(_) => false,
        }
    }

    /// Returns whether the store could not be reached at that moment, and nothing was done.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Commit(error) => error.is_unreachable(),
            Self::Store(error) => error.is_unreachable(),
            Self::Runs(error) => error.is_unreachable(),
            Self::Aborted
            | Self::NoAnswer { .. }
            | Self::NoSession
            | Self::Agent { .. }
            | Self::GaveUp { .. }
            | Self::Workspace(_)
            | Self::Io(_)
            | Self::Other(_) => false,
        }
    }

    /// Returns the error of a store that could not be reached, or any other error as it is.
    pub(crate) fn into_unreachable(self) -> Result<std::sync::Arc<crate::store::StoreError>, Self> {
        match self {
            Self::Commit(error) if error.is_unreachable() => Ok(error),
            Self::Store(error) if error.is_unreachable() => Ok(std::sync::Arc::new(error)),
            Self::Runs(error) if error.is_unreachable() => {
                Ok(std::sync::Arc::new(error.into_store()))
            }
            other => Err(other),
        }
    }

    /// Creates an error of another type.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }

    /// Creates an error from a text.
    pub fn message(text: impl fmt::Display) -> Self {
        Self::Other(text.to_string().into())
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Other(text.into())
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Self::Other(text.into())
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::other(error)
    }
}
