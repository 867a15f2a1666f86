//! `--detach`: the run goes on without the terminal.

use std::{
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt,
    process::{Command, Stdio},
};

use crate::{
    failure::{Failure, Result},
    root::StateRoot,
};

/// Starts the same command once more, its words in `.harness/run.log`, and gives its pid. The child
/// leaves the session of the terminal by itself ([`leave_terminal`]).
pub(super) fn start_again(root: &StateRoot) -> Result<u32> {
    root.own_directory("runs")?;
    let log = root.path().join(".harness/run.log");
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&log);
    let file = file.map_err(|why| Failure::file("write", &log, &why))?;
    let arguments = std::env::args_os().skip(1).map(|argument| match argument.to_str() {
        Some("--detach") => "--detached".into(),
        Some(_) | None => argument,
    });
    let child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()?;
    Ok(child.id())
}

pub(super) fn leave_terminal() -> Result<()> {
    rustix::process::setsid().map_err(std::io::Error::from)?;
    Ok(())
}
