//! The library: it does what [`harness_core`] decides.

pub mod clock;
pub mod host;
pub mod process;
pub mod shell;
pub mod store;
pub mod workspace;

pub use harness_core as core;
pub use process::guard;
