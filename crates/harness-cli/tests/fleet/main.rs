//! Tests of the binary over a ledger in PostgreSQL. They need a server, which `cargo xtask test` starts.
//! Without one they are counted as not run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "clippy only knows #[test] functions")]

#[path = "../it/environment.rs"]
mod environment;

mod refused;
mod secrets;
mod soak;
mod stage;
mod together;
mod transfer;

use harness_sim::postgres::{ServerTest as Test, run_tests};

fn main() {
    let all = [refused::TESTS, secrets::TESTS, together::TESTS, transfer::TESTS];
    let mut all: Vec<(&str, Test)> = all.concat();
    if soak::is_wanted() {
        all.extend(soak::TESTS);
    }
    run_tests(all);
}
