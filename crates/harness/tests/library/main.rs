//! The library from the view of its users, beyond the scenarios of `conformance`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "clippy only knows #[test] functions")]

mod agents;
mod conversation;
mod drive;
mod flow;
mod hub;
mod recorder;
mod send;
