//! The library as its users meet it: what the scenarios of `conformance` leave open.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "clippy only knows #[test] functions")]

mod agents;
mod conversation;
mod drive;
mod flow;
mod hub;
mod recorder;
mod send;
