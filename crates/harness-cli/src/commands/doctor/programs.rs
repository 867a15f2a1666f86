//! Programs of others: their places and versions.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use harness::shell::{Exit, Script, Shell, SystemShell};

use super::finding::Finding;
use crate::environment::Environment;

/// A program that does not report its version in this time does not work.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the program of this name on PATH. Relative entries are left out, because their meaning
/// depends on the directory, and a repository could bring its own `git`.
pub(in crate::commands) fn find(env: &Environment, name: &str) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|f| f.is_file() && f.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_absolute()).filter(runs);
    }
    let path = env.get("PATH")?;
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(runs)
}

/// Returns the output of a command, or the error.
pub(super) fn output(program: &Path, arguments: &str, directory: &Path) -> Result<String, String> {
    let Some(path) = program.to_str() else { return Err("its path is not UTF-8".to_owned()) };
    let quoted = path.replace('\'', r"'\''");
    let script = Script {
        command: format!("exec '{quoted}' {arguments}"),
        directory: directory.to_owned(),
        timeout: PATIENCE,
        environment: vec![
            ("LC_ALL".to_owned(), "C".to_owned()),
            ("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned()),
            ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()),
        ],
    };
    let shell = SystemShell { grace: Duration::from_millis(500), ..SystemShell::default() };
    let ran = shell.run(&script).map_err(|why| why.to_string())?;
    let text = String::from_utf8_lossy(&ran.tail).trim().to_owned();
    let last = || text.lines().last().unwrap_or("no output").to_owned();
    match ran.exit {
        Exit::Code(0) => Ok(text),
        Exit::Code(code) => Err(format!("exit {code}: {}", last())),
        Exit::Signal(signal) => Err(format!("killed by signal {signal}")),
        Exit::TimedOut => Err(format!("no answer in {} s", PATIENCE.as_secs())),
        Exit::Cancelled => Err("cancelled".to_owned()),
    }
}

/// Returns the version that it reports. Warnings are left out unless it fails, because they may
/// then be the reason.
pub(super) fn version(program: &Path, directory: &Path) -> Result<String, String> {
    let quiet = output(program, "--version 2>/dev/null", directory);
    let text = quiet.or_else(|_| output(program, "--version", directory))?;
    Ok(version_in(&text).unwrap_or("version unknown").chars().take(100).collect())
}

/// Returns the first line with a digit, or the last line.
fn version_in(text: &str) -> Option<&str> {
    let has_digit = |line: &&str| line.contains(|c: char| c.is_ascii_digit());
    text.lines().find(has_digit).or_else(|| text.lines().last())
}

pub(super) fn git(env: &Environment, directory: &Path) -> Finding {
    let Some(program) = find(env, "git") else {
        return Finding::fail("git", "not found on PATH", "install git");
    };
    match version(&program, directory) {
        Ok(version) => {
            let version = version.trim_start_matches("git version ");
            Finding::ok("git", format!("{version} ({})", program.display()))
        }
        Err(why) => {
            let what = format!("{} does not work: {why}", program.display());
            Finding::fail("git", what, "reinstall git")
        }
    }
}
