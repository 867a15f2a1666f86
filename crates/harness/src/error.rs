//! What can go wrong in a flow.

use std::{fmt, io};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody ended the conversation.
    #[error("Session aborted")]
    Aborted,
    /// Nobody answered in time.
    #[error("nobody answered within {} s", seconds)]
    NoAnswer { seconds: u64 },
    /// A question was asked although nobody can answer: `start_session()` was not called.
    #[error("there is no session to ask in")]
    NoSession,
    #[error("agent {agent}: {source}")]
    Agent { agent: String, source: Box<Error> },
    #[error("{what} failed after {tries} tries: {source}")]
    GaveUp { what: String, tries: u32, source: Box<Error> },
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// A decision could not be made durable.
    #[error(transparent)]
    Commit(std::sync::Arc<crate::store::StoreError>),
    /// Git can not do what was asked.
    #[error(transparent)]
    Workspace(#[from] crate::workspace::WorkspaceError),
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Anything else that a flow or an agent has to say.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
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
