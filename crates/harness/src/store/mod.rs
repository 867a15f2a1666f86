//! Where the ledger is kept.

#[doc(hidden)]
pub mod disk;
pub mod lock;
