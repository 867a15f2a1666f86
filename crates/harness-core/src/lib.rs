//! The pure decisions of harness.
//!
//! This crate says what becomes true ([`decide`]) and what to do next; it never does anything. No
//! clock, no file, no process, no thread: `now` is always an argument.

#![warn(missing_docs)]

pub mod agent;
pub mod category;
pub mod check;
pub mod command;
pub mod edit_from_outside;
pub mod fact;
pub mod flag;
pub mod format;
mod graph;
pub mod handoff;
mod head;
pub mod id;
pub mod lease;
pub mod ledger;
pub mod log;
pub mod machine;
pub mod plan;
pub mod project;
pub mod promise;
pub mod protect;
pub mod quote;
pub mod receipt;
pub mod research;
pub mod role;
pub mod run;
pub mod select;
pub mod standing;
pub mod stats;
pub mod stop;
pub mod task;
pub mod time;
pub mod trust;
pub mod variables;

pub use category::Category;
pub use command::{Change, Command, Holder, Refusal, Reply, decide};
pub use fact::Fact;
pub use flag::Flag;
pub use id::{BadName, CommitId, Epoch, TaskId, TreeId, WorkerId};
pub use ledger::Ledger;
pub use receipt::Receipt;
pub use run::{Iteration, Run, RunId};
pub use standing::Standing;
pub use stats::Stats;
pub use stop::Stop;
pub use task::Task;
pub use time::Timestamp;
