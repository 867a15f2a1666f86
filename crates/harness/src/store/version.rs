//! A version of the ledger in memory, and how the one on disk was found beside it.

use harness_core::{
    Ledger, TaskId,
    edit_from_outside::Difference,
    fact::Source,
    format::{Document, State},
};

use crate::home::FileStamp;

/// The ledger as we know it, and the file it was read from or written to.
pub(super) struct Known {
    pub(super) ledger: Ledger,
    pub(super) document: Document,
    /// `None`: of no file that is there.
    pub(super) identity: Option<FileStamp>,
    /// The digest, where somebody has made it since the last change.
    pub(super) state: Option<State>,
}

impl Known {
    pub(super) fn new(ledger: Ledger, document: Document, identity: Option<FileStamp>) -> Self {
        Self { ledger, document, identity, state: None }
    }

    /// The digest of this version.
    pub(super) fn state(&mut self) -> State {
        *self.state.get_or_insert_with(|| self.document.state())
    }
}

/// How the ledger on disk was found.
pub(super) enum Freshness {
    AsKnown,
    Restored {
        from: Source,
        reason: String,
    },
    /// What is known is to be written back.
    Refused {
        message: String,
    },
    Taken {
        what: Vec<Difference>,
        unproven: Vec<TaskId>,
    },
}

/// What became of the ledger.
pub(super) enum Lost {
    Missing,
    Broken { bytes: Vec<u8>, why: String },
}

/// Whether what is in the place of the ledger is worth keeping.
pub(super) enum Backup {
    Keep,
    None,
}
