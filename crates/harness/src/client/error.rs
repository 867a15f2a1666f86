//! The reasons why a client has no answer.

use std::{io, path::PathBuf};

use harness_core::{Refusal, machine::judge::NotDone};

use super::spawn::StartError;
use crate::{
    error::Error,
    protocol::{LINE_BYTES_MAX, Refused, Verb},
    store::{RunStoreError, StoreError},
};

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The request was refused, by the host or by the rules of the ledger.
    #[error("{}", .0.message)]
    Refused(Refused),
    /// This process judged the work, and it does not count as done.
    #[error("{}", .0.message)]
    NotDone(NotDone),
    /// The host ended without an answer. It is not known whether the request was carried out.
    #[error("the daemon or run ended without an answer")]
    Gone,
    /// The host holds the connection and sends nothing.
    #[error("the daemon or run does not answer")]
    Silent,
    /// The caller requested a stop. It is not known whether the request was carried out.
    #[error("cancelled before there was an answer")]
    Cancelled,
    /// The request is too long.
    #[error("the request has {length} bytes, more than {LINE_BYTES_MAX}")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// The answer has a form that this version does not know.
    #[error("the daemon or run gave an answer that this harness does not understand")]
    Strange,
    /// No host answers, and only a host could do this.
    #[error("no harness is running in {}", root.display())]
    Nobody {
        /// The state root.
        root: PathBuf,
    },
    /// Nobody here has what the request is about, and machines to which it was sent are silent. They may
    /// still carry it out.
    #[error("sent to {}, which {} not answered yet", hosts.join(", "), if hosts.len() == 1 { "has" } else { "have" })]
    Unanswered {
        /// The names of the machines.
        hosts: Vec<String>,
    },
    /// A sandbox forbids this process to connect, and it may not change the files.
    #[error("the sandbox does not let this command connect to harness")]
    Forbidden {
        /// The requested verb.
        verb: Verb,
    },
    /// A daemon could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The ledger could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database of runs could not be read or written.
    #[error(transparent)]
    Runs(#[from] RunStoreError),
    /// The work could not be judged.
    #[error(transparent)]
    Judge(Error),
    /// The system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Refused> for ClientError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Refusal> for ClientError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.into())
    }
}

impl From<NotDone> for ClientError {
    fn from(why: NotDone) -> Self {
        Self::NotDone(why)
    }
}

impl From<Error> for ClientError {
    fn from(why: Error) -> Self {
        Self::Judge(why)
    }
}
