//! Programs that are not dependencies of the workspace. They are built below `target/tools` when
//! they are first needed, in exactly one version.

use std::{path::PathBuf, process::Command};

use crate::run::{cargo, root, run};

pub(crate) struct Tool {
    /// The package in the registry.
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    pub(crate) version: &'static str,
    /// Further options of `cargo install`.
    pub(crate) options: &'static [&'static str],
}

/// Returns the path of the program, after it was built if necessary.
pub(crate) fn find(tool: &Tool) -> Result<PathBuf, String> {
    let Tool { name, program, version, options } = tool;
    let tools = root().join("target/tools");
    let path = tools.join("bin").join(program);
    let said = Command::new(&path).arg("--version").output();
    if said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(version)) {
        return Ok(path);
    }
    eprintln!("{name} {version} is built into {}; this takes minutes, once", tools.display());
    run(cargo()
        .args(["install", name, "--locked", "--debug", "--version", version])
        .args(options.iter())
        .arg("--root")
        .arg(&tools))?;
    Ok(path)
}
