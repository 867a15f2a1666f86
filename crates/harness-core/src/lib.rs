//! The pure decisions of harness.
//!
//! This crate decides what becomes true and what to do next, and never does anything itself. It has no
//! clock, no files, no processes and no threads: `now` is always an argument.
//!
//! | noun | is |
//! |---|---|
//! | [`Ledger`] | the tasks of a project, with the head and the indexes over them |
//! | [`Task`] | one piece of work, with its check and its [state](task::TaskState) |
//! | [`Command`] | a change that somebody asks for, from a closed set |
//! | [`decide`] | the one function that answers a command: with a [`Change`], or a [`Refusal`] |
//! | [`Fact`] | what happened, as the log and events report it |
//! | [`Receipt`] | the record of a completion |
//! | [`Run`], [`Stop`] | one `harness run`, and why it stopped |
//! | [`machine::Machine`] | decides the next step of a longer work, one input at a time |
//!
//! Programs mostly use it through the `harness` crate, which re-exports it as `harness::core` and adds
//! files, git, processes and agents. The enums are closed on purpose, so that a `match` covers every case.
//! They grow in minor versions only.

#![warn(missing_docs)]

pub mod agent;
#[doc(hidden)]
pub mod backoff;
pub mod category;
pub mod check;
pub mod command;
pub mod database;
#[doc(hidden)]
pub mod edit_from_outside;
pub mod export;
pub mod fact;
pub mod flag;
pub mod format;
mod graph;
#[doc(hidden)]
pub mod handoff;
mod head;
pub mod id;
pub mod import;
pub mod lease;
pub mod ledger;
#[doc(hidden)]
pub mod line;
#[doc(hidden)]
pub mod log;
pub mod machine;
pub mod notify;
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
pub mod trace;
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
