//! Tests of the binary over a ledger in PostgreSQL. They need a server, which `cargo xtask test` starts.
//! Without one they are counted as not run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "clippy only knows #[test] functions")]

#[path = "../it/environment.rs"]
mod environment;

mod cut_off;
mod failover;
mod messages;
mod refused;
mod secrets;
mod soak;
mod stage;
mod together;
mod transfer;

use harness_sim::postgres::{ServerTest as Test, run_tests};

fn main() {
    let all: &[&[(&str, Test)]] = &[
        cut_off::TESTS,
        failover::TESTS,
        messages::TESTS,
        refused::TESTS,
        secrets::TESTS,
        soak::TESTS,
        together::TESTS,
        transfer::TESTS,
    ];
    run_tests(all.concat());
}
