//! `cargo xtask test --browser`: the pages of `harness web` in Debian's Chromium.

use std::process::Command;

use crate::run::{Done, answers, cargo, run};

const PROGRAM: &str = "chromium";
/// The tests that need it, for the remark that they did not run.
const TESTS: &str = "crates/harness-cli/tests/it/web/browser.rs";

/// Installs the browser if it is missing, and runs the tests that need it.
pub(crate) fn test() -> Done {
    if !is_there() {
        let install = ["apt-get", "install", "--yes", "--no-install-recommends", PROGRAM];
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
        let mut words = if is_root { vec![] } else { vec!["sudo"] };
        words.extend(install);
        run(Command::new(words[0]).args(&words[1..]))?;
        if !is_there() {
            return Err(format!("{PROGRAM} was installed, but cannot be started"));
        }
    }
    run(cargo().args([
        "test",
        "--package",
        "harness-supervisor-cli",
        "--test",
        "it",
        "web::browser",
    ]))
}

/// Reports tests that did not run, as the last lines of a run of all tests.
pub(crate) fn report() {
    if !is_there() {
        let source = std::fs::read_to_string(crate::run::root().join(TESTS)).unwrap_or_default();
        let count = source.matches("#[test]").count();
        eprintln!("NOT RUN: {count} tests of pages, because there is no {PROGRAM} on this machine");
        eprintln!("         `cargo xtask test --browser` installs it and runs them");
    }
}

fn is_there() -> bool {
    answers(Command::new(PROGRAM).arg("--version"))
}
