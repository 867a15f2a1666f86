//! The real agents, from their own packages, against a scripted model.
//!
//! `cargo xtask test --real-agents` installs them and runs these tests. A plain `cargo test` shows
//! each of them as ignored, because they need a download.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acp;
mod acp_editor;
mod claude;
mod codex;
#[path = "../it/environment.rs"]
mod environment;
mod inside;
mod mcp;
mod scenarios;
mod side_by_side;
mod terminal;
mod world;
