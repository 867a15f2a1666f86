//! Starts programs from the root of the workspace.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub(crate) type Done = Result<(), String>;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Runs it with its output visible. An exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Done {
    let said = format!("{command:?}").replace('"', "");
    eprintln!("+ {said}");
    let status = command.status().map_err(|e| format!("{said}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{said}: {status}")) }
}

/// Returns whether it can be started and succeeds.
pub(crate) fn answers(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|s| s.success())
}

/// Returns the release binary, and builds it if necessary.
pub(crate) fn release_binary() -> Result<PathBuf, String> {
    run(cargo().args(["build", "--release", "--package", "harness-supervisor-cli"]))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/harness"))
}
