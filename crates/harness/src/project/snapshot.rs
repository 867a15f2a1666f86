//! The ledger as it stands, for what reads it and decides nothing.

use harness_core::{
    Ledger,
    format::{self, Document, Glance},
};

use super::Project;
use crate::store::{StoreError, read_text};

/// The text of a ledger at one moment. What shows tasks reads from it only as much as it shows.
#[derive(Debug, Clone)]
pub struct LedgerText(Vec<u8>);

impl LedgerText {
    /// The whole ledger.
    pub fn ledger(&self) -> Result<Ledger, StoreError> {
        format::read_ledger(&self.0).map_err(StoreError::Format)
    }

    /// One line of each task. It costs far less than [`ledger`](Self::ledger).
    #[doc(hidden)]
    pub fn glance(&self) -> Result<Glance<'_>, StoreError> {
        format::glance(&self.0).map_err(StoreError::Format)
    }

    /// The whole ledger, and the text of every task with the fields that this version does not know.
    #[doc(hidden)]
    pub fn document(&self) -> Result<(Ledger, Document), StoreError> {
        format::read(&self.0).map_err(StoreError::Format)
    }

    /// The bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Project {
    /// The ledger as it stands, for a process that does not own its writer. It takes no lock and repairs
    /// nothing.
    pub fn snapshot(&self) -> Result<Ledger, StoreError> {
        self.snapshot_text()?.ledger()
    }

    /// The same as a text, for what needs only a part of it or more than a [`Ledger`] has.
    pub fn snapshot_text(&self) -> Result<LedgerText, StoreError> {
        read_text(self.root()).map(LedgerText)
    }
}
