//! A private PostgreSQL for the tests that need one.
//!
//! It is started below `target/` by a program of `harness-sim`, which stops it when this process ends.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::run::{answers, cargo, root};

/// The variable that names the server. `harness_sim::postgres` reads it.
pub(crate) const VARIABLE: &str = "HARNESS_TEST_POSTGRES";
/// The folders with the tests that need it, for the remark that they did not run.
const TESTS: [&str; 2] = ["crates/harness-sim/tests/postgres", "crates/harness-cli/tests/fleet"];

/// A server that stops when this is dropped.
pub(crate) struct Server {
    program: Child,
    url: String,
}

impl Server {
    /// Starts a server, and installs PostgreSQL before if it is missing and this is root on Debian.
    /// Returns `None` if there is none and none can be installed.
    pub(crate) fn start() -> Option<Self> {
        if !is_there() {
            install();
        }
        if !is_there() {
            return None;
        }
        let folder = root().join("target/postgres");
        let mut program = cargo();
        program.args(["run", "--quiet", "--package", "harness-sim", "--bin", "harness-postgres"]);
        program.arg("--").arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = match program.spawn() {
            Ok(program) => program,
            Err(why) => {
                eprintln!("PostgreSQL cannot be started: {why}");
                return None;
            }
        };
        let mut url = String::new();
        let output = program.stdout.take()?;
        let read = BufReader::new(output).read_line(&mut url);
        let url = url.trim().to_owned();
        let mut server = Self { program, url };
        match read {
            Ok(_) if !server.url.is_empty() => {
                eprintln!("+ PostgreSQL runs below target/postgres");
                Some(server)
            }
            Ok(_) | Err(_) => {
                _ = server.program.wait();
                None
            }
        }
    }

    /// Names the server to a program and everything that it starts.
    pub(crate) fn name_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(VARIABLE, &self.url)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input is the sign to stop.
        drop(self.program.stdin.take());
        _ = self.program.wait();
    }
}

/// Reports tests that did not run, as the last lines of a run of all tests.
pub(crate) fn report(server: Option<&Server>) {
    if server.is_some() {
        return;
    }
    let count = occurrences("(server: &TestServer) {") + occurrences("(_: &TestServer) {");
    eprintln!(
        "NOT RUN: {count} tests of the store over PostgreSQL, because there is no server on this machine"
    );
    eprintln!("         as root on Debian, `cargo xtask test` installs it");
}

fn occurrences(part: &str) -> usize {
    let folders = TESTS.iter().filter_map(|folder| std::fs::read_dir(root().join(folder)).ok());
    let files = folders.flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    texts.map(|text| text.matches(part).count()).sum()
}

/// Returns whether the server can be found as the program of `harness-sim` looks for it.
fn is_there() -> bool {
    let is_whole =
        |folder: &Path| folder.join("initdb").is_file() && folder.join("pg_ctl").is_file();
    let asked = Command::new("pg_config").arg("--bindir").output().ok();
    let asked = asked.map(|out| PathBuf::from(String::from_utf8_lossy(&out.stdout).trim()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|entry| entry.path().join("bin"));
    asked
        .into_iter()
        .chain(std::env::split_paths(&path))
        .chain(debian)
        .any(|folder| is_whole(&folder))
}

/// Installs it by the package manager of Debian, as root.
fn install() {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    if !is_root || !answers(Command::new("apt-get").arg("--version")) {
        return;
    }
    // A new machine has no list of packages yet.
    if let Err(why) = crate::run::run(Command::new("apt-get").arg("update")) {
        eprintln!("the list of packages cannot be updated: {why}");
    }
    let arguments = ["install", "--yes", "--no-install-recommends", "postgresql"];
    if let Err(why) = crate::run::run(Command::new("apt-get").args(arguments)) {
        eprintln!("PostgreSQL cannot be installed: {why}");
    }
}
