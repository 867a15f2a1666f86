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

use harness_sim::postgres::{TestServer, VARIABLE};
use libtest_mimic::{Arguments, Trial};

type Test = fn(&TestServer);

fn main() {
    let arguments = Arguments::from_args();
    let server = TestServer::named();
    let all = [
        conformance::TESTS,
        errors::TESTS,
        fleet::TESTS,
        forgotten::TESTS,
        history::TESTS,
        lost::TESTS,
        transfer::TESTS,
    ];
    let all: Vec<(&str, Test)> = all.concat();
    if server.is_none() && !arguments.list {
        eprintln!("NOT RUN: {} tests need PostgreSQL, and {VARIABLE} names no server", all.len());
        eprintln!("         `cargo xtask test` starts one for them");
    }
    let trials = all.into_iter().map(|(name, test)| {
        let server = server.clone();
        let run = move || {
            if let Some(server) = server {
                test(&server);
            }
            Ok(())
        };
        Trial::test(name, run)
    });
    let is_missing = server.is_none();
    let trials = trials.map(|trial| trial.with_ignored_flag(is_missing)).collect();
    libtest_mimic::run(&arguments, trials).exit();
}
