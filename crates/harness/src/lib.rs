//! The library: it does what [`harness_core`] decides.

pub mod agent;
pub mod attachments;
mod channel;
pub mod clock;
pub mod conversation;
mod cx;
mod define;
mod drive;
mod error;
pub mod event;
pub mod flows;
pub mod host;
pub mod hub;
pub mod process;
mod repeat;
pub mod shell;
pub mod store;
pub mod workspace;

pub use agent::{Agent, Execution, Named, named};
pub use attachments::{progress_log, terminal};
pub use channel::Channel;
pub use conversation::{Ask, Session};
pub use cx::{Branch, Cx, PhaseName};
pub use define::{
    Cleanup, Define, Definition, Harness, HarnessResult, Instance, IntoCleanup, cleanup,
};
pub use drive::{Commit, Committing, Ports};
pub use error::{Error, Result};
pub use event::{Context, Envelope, Event, Scope};
pub use harness_core as core;
pub use hub::{Hub, HubStatus, Reply};
pub use process::guard;
pub use repeat::{PARALLEL, RetryPolicy};

// The flows are written as an outsider would write them.
extern crate self as harness;
