//! The real agents, from their own packages, against a model that says what a script says.
//!
//! `cargo xtask test --real-agents` installs them and runs these. A plain `cargo test` shows each of
//! them as ignored: they need a download.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acp;
mod claude;
mod codex;
#[path = "../it/environment.rs"]
mod environment;
mod inside;
mod mcp;
mod scenarios;
mod terminal;
mod world;
