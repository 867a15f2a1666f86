//! Telemetry: facts for a program of this user that listens on this machine. [`Telemetry`] sends
//! them, and `listener.rs` determines the owner of the program.

mod listener;
mod sender;

pub use sender::{QUEUE, Say, Telemetry, object};
