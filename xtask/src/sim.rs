//! `cargo xtask sim`: the simulator, optimised, because it finds more the more seeds it runs.

use crate::run::{Done, cargo, run};

pub(crate) fn sim(arguments: &[&str]) -> Done {
    let mut command = cargo();
    command.args([
        "run",
        "--quiet",
        "--profile",
        "sim",
        "--package",
        "harness-sim",
        "--bin",
        "harness-sim",
        "--",
    ]);
    run(command.args(arguments))
}
