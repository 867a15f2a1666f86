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

use harness_sim::postgres::{TestServer, VARIABLE};
use libtest_mimic::{Arguments, Trial};

type Test = fn(&TestServer);

fn main() {
    let arguments = Arguments::from_args();
    let server = TestServer::named();
    let all = [refused::TESTS, secrets::TESTS, together::TESTS, transfer::TESTS];
    let mut all: Vec<(&str, Test)> = all.concat();
    if soak::is_wanted() {
        all.extend(soak::TESTS);
    }
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
