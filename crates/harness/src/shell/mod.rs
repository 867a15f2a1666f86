//! The shell port: checks, the init script, cleanup commands.

mod cancel;
mod guarded;
mod output;
mod plain;
mod system;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

pub use cancel::Cancel;
#[doc(no_inline)]
pub use harness_core::check::Exit;
pub use system::SystemShell;

/// One command line for `sh -c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The command line.
    pub command: String,
    /// The working directory.
    pub directory: PathBuf,
    /// The time limit. After it, all of it gets TERM, a grace period, and KILL.
    pub timeout: Duration,
    /// Variables that are added to the inherited environment, which has no variables of a task.
    /// `HARNESS_STATE_ROOT`, `HARNESS_TASK_ID` and `HARNESS_EPOCH` among them name the purpose; the
    /// command line of its guard contains the same.
    pub environment: Vec<(String, String)>,
}

/// The result of a [`Script`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The exit.
    pub exit: Exit,
    /// The time until its last process had ended.
    pub duration: Duration,
    /// The last 64 KiB of standard output and error, interleaved as they came, without the secrets
    /// of the command's environment.
    pub tail: Vec<u8>,
    /// The number of all output bytes, including those no longer in `tail`.
    pub output_bytes: u64,
    /// The SHA-256 of the whole output, in hexadecimal.
    pub output_sha256: String,
}

/// Runs commands. Nothing that they start outlives the call.
pub trait Shell: Send + Sync {
    /// Blocks until the command has ended. A command that fails is an [`Exit`], not an error. An
    /// error means that it could not be run.
    fn run(&self, script: &Script) -> io::Result<Ran>;

    /// Does the same as [`Shell::run`], but ends as [`Exit::Cancelled`], stopped as by a time-out,
    /// when `cancel` is called from another thread. A shell whose commands take no time may ignore
    /// it.
    fn run_until(&self, script: &Script, cancel: &Cancel) -> io::Result<Ran> {
        let _ = cancel;
        self.run(script)
    }

    /// Returns whether the first word of `command` is a plain word that `command -v` does not find.
    fn lacks(&self, command: &str, directory: &Path) -> bool;
}
