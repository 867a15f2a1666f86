//! The pure decisions of harness.
//!
//! This crate says what becomes true ([`decide`]) and what to do next; it never does anything. No
//! clock, no file, no process, no thread: `now` is always an argument.

#![warn(missing_docs)]

pub mod agent;
pub mod category;
pub mod check;
pub mod command;
#[doc(hidden)]
pub mod edit_from_outside;
pub mod fact;
pub mod flag;
pub mod format;
mod graph;
#[doc(hidden)]
pub mod handoff;
mod head;
pub mod id;
pub mod lease;
pub mod ledger;
#[doc(hidden)]
pub mod log;
pub mod machine;
pub mod plan;
#[doc(hidden)]
pub mod project;
#[doc(hidden)]
pub mod promise;
#[doc(hidden)]
pub mod protect;
#[doc(hidden)]
pub mod quote;
pub mod receipt;
#[doc(hidden)]
pub mod research;
pub mod role;
pub mod run;
#[doc(hidden)]
pub mod select;
pub mod standing;
pub mod stats;
pub mod stop;
pub mod task;
pub mod time;
#[doc(hidden)]
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
