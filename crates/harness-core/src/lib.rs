//! The pure decisions of harness.
//!
//! This crate says what becomes true ([`decide`](command::decide)) and what to do next; it never
//! does anything. No clock, no file, no process, no thread: `now` is always an argument.

pub mod category;
pub mod id;
pub mod log;
pub mod machine;
pub mod plan;
pub mod time;

pub use category::Category;
pub use id::{BadName, CommitId, Epoch, TaskId, TreeId, WorkerId};
pub use time::Timestamp;
