//! What can go wrong in a flow.

use std::{fmt, io};

/// What flows and agents return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a flow or an agent failed. Anything that fits nowhere else is [`Other`](Error::Other), and a
/// text becomes one by `?` or `into()`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody ended the conversation.
    #[error("Session aborted")]
    Aborted,
    /// Nobody answered in time.
    #[error("nobody answered within {} s", seconds)]
    NoAnswer {
        /// How long somebody waited, rounded down.
        seconds: u64,
    },
    /// A question was asked although nobody can answer: `start_session()` was not called.
    #[error("there is no session to ask in")]
    NoSession,
    /// An agent returned an error.
    #[error("agent {agent}: {source}")]
    Agent {
        /// The name that it was given.
        agent: String,
        /// What it returned.
        source: Box<Error>,
    },
    /// [`Branch::retry`](crate::Branch::retry) came to its end.
    #[error("{what} failed after {tries} tries: {source}")]
    GaveUp {
        /// As the flow named it.
        what: String,
        /// How many there were.
        tries: u32,
        /// What the last of them returned.
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
    /// Git cannot do what was asked.
    #[error(transparent)]
    Workspace(#[from] crate::workspace::WorkspaceError),
    /// A file or a process failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Anything else that a flow or an agent has to say.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Whether somebody ended the conversation, wherever that was noticed.
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

    /// An error of one's own.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }

    /// An error in words.
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
