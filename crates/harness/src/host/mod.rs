//! Who serves a state root to other processes, and how they talk.
//!
//! Whoever holds the [`Writer`](crate::store::Writer) of a root [binds](socket::bind) its socket and
//! [serves](server::serve) it: one JSON object per line, answered by one line. Other processes use the
//! blocking [`client`]. Everything that is asked for becomes a command of the core; nothing is decided
//! here.

mod claim_rules;
pub mod client;
mod crowd;
mod daemon;
mod frames;
mod instance;
mod permit;
pub mod prompts;
mod request;
pub mod server;
pub mod socket;
pub mod spawn;
mod told;
mod verbs;
mod vigil;
pub mod wire;

pub use crate::agent::{AtWork, Desk};
pub use claim_rules::ClaimRules;
pub use daemon::{Daemon, Ended, Settings, Surroundings, serve_alone};
pub use server::{Duty, Host, Server, serve};
pub use told::tell_facts;
