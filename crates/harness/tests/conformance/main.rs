//! The event sequences that the library promises, scenario by scenario: each envelope's context and
//! event are compared as JSON, exactly.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "clippy only knows #[test] functions")]

mod agent;
mod harness_;
mod hub;
mod seen;
