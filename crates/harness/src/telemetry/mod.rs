//! Telemetry: facts for a program of this user that listens on this machine. [`Telemetry`] sends
//! them; whose program it is, `listener.rs` finds out.

mod listener;
mod sender;

pub use sender::{QUEUE, Say, Telemetry, object};
