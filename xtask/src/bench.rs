//! `cargo xtask bench`: ratios of cost, each against a yardstick measured in the same run.

use crate::run::{Done, cargo, release_binary, run};

pub(crate) fn bench(arguments: &[&str]) -> Done {
    let harness = release_binary()?;
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--package", "harness-sim"]);
    command.args(["--bin", "harness-bench", "--"]).arg(harness);
    run(command.args(arguments))
}
