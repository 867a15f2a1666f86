//! The store over a real PostgreSQL.
//!
//! `cargo xtask test` starts a server for these tests. Without one they are counted as ignored, and this
//! program says so.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod conformance;
mod errors;
mod fleet;
mod forgotten;
mod history;
mod lost;
#[path = "../../../harness-core/tests/support/mod.rs"]
mod support;
mod transfer;
#[path = "../../../harness-core/tests/properties/world.rs"]
#[allow(dead_code, reason = "the tests of the core use all of it")]
mod world;

use harness_sim::postgres::{ServerTest as Test, run_tests};

fn main() {
    let all = [
        conformance::TESTS,
        errors::TESTS,
        fleet::TESTS,
        forgotten::TESTS,
        history::TESTS,
        lost::TESTS,
        transfer::TESTS,
    ];
    run_tests(all.concat());
}
