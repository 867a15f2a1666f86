//! `cargo xtask test`: everything that must pass.

use crate::{
    postgres,
    run::{Done, answers, cargo, run},
};

/// Runs all checks. The tests come last, so that the run ends with their summary.
pub(crate) fn test() -> Done {
    run(cargo().args(["build", "--workspace", "--all-targets"]))?;
    run(cargo().args(["check", "--package", "harness-supervisor", "--no-default-features"]))?;
    run(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    crate::names::unique()?;
    crate::docs::docs(&["--check"])?;
    crate::sim::sim(&[])?;
    run(cargo().args(["test", "--workspace", "--doc", "--quiet"]))?;
    let server = postgres::Server::start();
    let mut tests = cargo();
    if answers(cargo().args(["nextest", "--version"])) {
        tests.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    } else {
        tests.args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    }
    if let Some(server) = &server {
        server.name_to(&mut tests);
    }
    let tested = run(&mut tests);
    crate::browser::report();
    postgres::report(server.as_ref());
    tested
}

/// Runs the test of a fleet whose parts fail, in its whole size.
pub(crate) fn soak() -> Done {
    let server = postgres::Server::start().ok_or("there is no PostgreSQL on this machine")?;
    let mut test = cargo();
    test.args(["test", "--package", "harness-supervisor-cli", "--test", "fleet", "--"]);
    test.args(["--nocapture", "every_task_lands_once"]).env("HARNESS_SOAK", "full");
    run(server.name_to(&mut test))
}
