//! Serves a state root to other processes.
//!
//! The process that holds the [`Writer`](crate::store::Writer) of a root [binds](socket::bind) its
//! socket and [serves](server::serve) it: one JSON object per line, answered by one line. Other
//! processes use a [`Client`](crate::Client). Every request becomes a command of the core; nothing
//! is decided here.

mod beside;
mod claim_rules;
mod crowd;
mod daemon;
mod engine;
mod frames;
mod instance;
mod permit;
#[cfg(feature = "postgres")]
mod post;
pub mod prompts;
mod refused;
pub mod server;
pub mod socket;
mod verbs;
mod vigil;
mod workshop;

pub use claim_rules::ClaimRules;
pub use daemon::{Daemon, Ended, MayRun, Settings, Surroundings, serve_alone};
pub use engine::Service;
pub use instance::wait_until_gone;
pub use server::{Duty, Host, Server, serve};
pub use workshop::Workshop;

/// The line that a daemon writes to standard output when it listens.
pub const READY: &str = "ready";
