//! The behaviour that every implementation of a port must have, as cases that run over each of
//! them.
//!
//! This is test code that lives in a library because several test programs use it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

pub mod agent;
pub mod outbox;
pub mod repository;
pub mod runs;
pub mod shared;
pub mod store;
pub mod workspace;
