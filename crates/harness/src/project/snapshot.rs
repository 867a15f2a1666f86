//! The current ledger, for readers that decide nothing.

use harness_core::{
    Ledger,
    format::{self, Document, Glance},
};

use super::{Project, backing};
use crate::store::StoreError;

/// The text of a ledger at one moment. A reader parses only as much of it as it shows.
#[derive(Debug, Clone)]
pub struct LedgerText(Vec<u8>);

impl LedgerText {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the whole ledger.
    pub fn ledger(&self) -> Result<Ledger, StoreError> {
        format::read_ledger(&self.0).map_err(StoreError::Format)
    }

    /// Returns one line of each task. It costs far less than [`ledger`](Self::ledger).
    #[doc(hidden)]
    pub fn glance(&self) -> Result<Glance<'_>, StoreError> {
        format::glance(&self.0).map_err(StoreError::Format)
    }

    /// Returns the whole ledger, and the text of every task with the fields that this version does
    /// not know.
    #[doc(hidden)]
    pub fn document(&self) -> Result<(Ledger, Document), StoreError> {
        format::read(&self.0).map_err(StoreError::Format)
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Project {
    /// Returns the current ledger, for a process that does not own its writer. It takes no lock and
    /// repairs nothing.
    pub fn snapshot(&self) -> Result<Ledger, StoreError> {
        self.snapshot_text()?.ledger()
    }

    /// Returns the same as a text, for readers that need only a part of it or more than a
    /// [`Ledger`] has.
    pub fn snapshot_text(&self) -> Result<LedgerText, StoreError> {
        backing::text(self).map(LedgerText)
    }
}
