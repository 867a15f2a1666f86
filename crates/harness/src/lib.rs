//! The library: it does what [`harness_core`] decides.

pub mod clock;
pub mod host;
pub mod shell;
pub mod store;
pub mod workspace;

pub use harness_core as core;
