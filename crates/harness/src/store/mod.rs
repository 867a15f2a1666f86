//! Where the ledger is kept.
pub mod lock;
