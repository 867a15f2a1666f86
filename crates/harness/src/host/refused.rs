//! Errors of the store, of git and of flows, in the form for clients.

use std::path::Path;

use harness_core::{
    command::Code,
    machine::judge::{Fault, NotDone},
};

use crate::{
    error::Error,
    flows::client_tree::ForeignTree,
    protocol::Refused,
    store::{StoreError, WriterError},
    workspace::WorkspaceError,
};

/// Returns the refusal of a request for another root than the served one.
pub(super) fn another_root(root: &Path) -> Refused {
    let message = format!("This socket serves another root: {}", root.display());
    Refused::new(Code::AnotherRoot, message)
}

/// Returns the refusal of a request while a run holds the ledger exclusively.
pub(super) fn busy() -> Refused {
    let pid = std::process::id();
    Refused::new(Code::Busy, format!("Another harness session is active (pid={pid})"))
}

impl From<ForeignTree> for Refused {
    fn from(why: ForeignTree) -> Self {
        NotDone::from(why).into()
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Commit(why) => WriterError::Store(why).into(),
            Error::Workspace(why) => why.into(),
            other => other.to_string().into(),
        }
    }
}

impl From<WriterError> for Refused {
    fn from(error: WriterError) -> Self {
        let message = error.to_string();
        let (code, fault) = match error {
            WriterError::Refused(refusal) => return refusal.into(),
            WriterError::Store(why) => match *why {
                StoreError::Format(_)
                | StoreError::Unrecoverable { .. }
                | StoreError::Needs { .. } => (Code::Config, Fault::Config),
                StoreError::NoLedger { .. } => (Code::NoLedger, Fault::Request),
                _ => (Code::Failed, Fault::Request),
            },
            WriterError::Ended => (Code::Stopped, Fault::Request),
        };
        Self { message, code, fault, hints: Vec::new() }
    }
}

impl From<WorkspaceError> for Refused {
    fn from(error: WorkspaceError) -> Self {
        let fault = match &error {
            WorkspaceError::NotARepository { .. }
            | WorkspaceError::NoCommits
            | WorkspaceError::NoGit
            | WorkspaceError::Locked { .. }
            | WorkspaceError::Unsafe { .. } => Fault::Config,
            _ => Fault::Request,
        };
        let code = if fault == Fault::Config { Code::Config } else { Code::Failed };
        Self { message: error.to_string(), code, fault, hints: Vec::new() }
    }
}
