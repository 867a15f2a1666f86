//! A version of the ledger in memory, and its relation to the one on disk.

use harness_core::{
    Ledger, TaskId,
    edit_from_outside::Difference,
    fact::Source,
    format::{Document, State},
};

use crate::home::FileStamp;

/// The known ledger, and the file that it was read from or written to.
pub(super) struct Known {
    pub(super) ledger: Ledger,
    pub(super) document: Document,
    /// The stamp of the file; `None` if it is in no existing file.
    pub(super) identity: Option<FileStamp>,
    /// The digest, if it was computed since the last change.
    pub(super) state: Option<State>,
}

impl Known {
    pub(super) fn new(ledger: Ledger, document: Document, identity: Option<FileStamp>) -> Self {
        Self { ledger, document, identity, state: None }
    }

    /// Returns the digest of this version.
    pub(super) fn state(&mut self) -> State {
        *self.state.get_or_insert_with(|| self.document.state())
    }
}

/// The state of the ledger on disk.
pub(super) enum Freshness {
    AsKnown,
    Restored {
        from: Source,
        reason: String,
    },
    /// The known version must be written back.
    Refused {
        message: String,
    },
    Taken {
        what: Vec<Difference>,
        unproven: Vec<TaskId>,
    },
}

/// The damage of a lost ledger.
pub(super) enum Lost {
    Missing,
    Broken { bytes: Vec<u8>, why: String },
}

/// Whether the existing ledger becomes the backup.
pub(super) enum Backup {
    Keep,
    None,
}
