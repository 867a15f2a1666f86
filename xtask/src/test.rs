//! `cargo xtask test`: everything that must pass.

use crate::run::{Done, answers, cargo, run};

/// Runs all checks. The tests come last, so that the run ends with their summary.
pub(crate) fn test() -> Done {
    run(cargo().args(["build", "--workspace", "--all-targets"]))?;
    run(cargo().args(["check", "--package", "harness-supervisor", "--no-default-features"]))?;
    run(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    crate::names::unique()?;
    crate::docs::docs(&["--check"])?;
    crate::sim::sim(&[])?;
    run(cargo().args(["test", "--workspace", "--doc", "--quiet"]))?;
    let tested = if answers(cargo().args(["nextest", "--version"])) {
        run(cargo().args(["nextest", "run", "--workspace", "--no-fail-fast"]))
    } else {
        run(cargo().args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]))
    };
    crate::browser::report();
    tested
}
