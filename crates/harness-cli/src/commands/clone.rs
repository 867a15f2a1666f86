//! `--clone URL DIR`: a clone in which a worker works.

use std::{fs, path::Path, process::Command};

use harness::workspace::{Filters, GitWorkspace};

use crate::{
    environment::Environment,
    failure::{Failure, Result},
    root::PIN,
};

/// Makes the clone, unless the directory is one of the same address, and enters it.
pub(super) fn enter(env: &Environment, url: &str, directory: &Path) -> Result<()> {
    if env.path(PIN).is_some() {
        return Err(Failure::usage(format!(
            "--clone makes a project of its own, but {PIN} is set"
        )));
    }
    if is_taken(directory)? {
        refuse_another(url, directory)?;
    } else {
        make(url, directory)?;
    }
    std::env::set_current_dir(directory).map_err(|why| Failure::file("change to", directory, &why))
}

/// Returns whether there is something in the directory.
fn is_taken(directory: &Path) -> Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(why) => Err(Failure::file("read", directory, &why)),
    }
}

fn refuse_another(url: &str, directory: &Path) -> Result<()> {
    let found = GitWorkspace::discover(directory, directory, Filters::Off).ok();
    let remotes = found.and_then(|git| git.remotes().ok()).unwrap_or_default();
    if remotes.values().any(|known| known == url) {
        return Ok(());
    }
    let place = directory.display();
    Err(Failure::error(format!("{place} is not empty, and no clone of that address"))
        .hint("name another directory"))
}

/// Clones as the user would: with their configuration, their credentials and their questions.
fn make(url: &str, directory: &Path) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["clone", "--quiet", "--"]).arg(url).arg(directory);
    let ran = command.status().map_err(|why| Failure::error(format!("cannot run git: {why}")))?;
    match ran.success() {
        true => Ok(()),
        false => Err(Failure::error(format!("git clone into {} failed", directory.display()))),
    }
}
