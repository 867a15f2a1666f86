//! `--detach`: the run continues without the terminal.

use std::process::{Command, Stdio};

use harness::home::{Home, file_name, folder::Folder};

use crate::{failure::Result, root::StateRoot};

/// Starts the same command again, with its output in `.harness/run.log`, and returns its pid. The
/// child leaves the session of the terminal by itself ([`leave_terminal`]).
pub(super) fn start_again(root: &StateRoot) -> Result<u32> {
    root.own_directory(file_name(Home::RUNS))?;
    let file = Folder::ours(&root.home().folder())?.open_to_append(file_name(Home::RUN_LOG))?;
    let arguments = std::env::args_os().skip(1).map(|argument| match argument.to_str() {
        Some("--detach" | "--top") => "--detached".into(),
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
