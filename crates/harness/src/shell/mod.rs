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
    /// Where it runs.
    pub directory: PathBuf,
    /// How long it may take; then TERM, a grace period, KILL, to all of it.
    pub timeout: Duration,
    /// Added to the inherited environment, which is without the variables of a task.
    /// `HARNESS_STATE_ROOT`, `HARNESS_TASK_ID` and `HARNESS_EPOCH` among them say what it is run for;
    /// the command line of its guard says the same.
    pub environment: Vec<(String, String)>,
}

/// What came of a [`Script`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub exit: Exit,
    /// Until the last process of it had ended.
    pub duration: Duration,
    /// The last 64 KiB of standard output and error, interleaved as they came, without the secrets of
    /// the command's environment.
    pub tail: Vec<u8>,
    /// All bytes that came, also those no longer in `tail`.
    pub output_bytes: u64,
    /// SHA-256 of all of the output, in hexadecimal.
    pub output_sha256: String,
}

/// Runs commands; nothing that they start outlives the call.
pub trait Shell: Send + Sync {
    /// Blocks until it has ended. A command that fails is an [`Exit`], not an error: an error means
    /// that it could not be run.
    fn run(&self, script: &Script) -> io::Result<Ran>;

    /// Like [`Shell::run`], but ends as [`Exit::Cancelled`], stopped as by a time-out, when
    /// `cancel` is called from another thread. A shell whose commands take no time need not care.
    fn run_until(&self, script: &Script, cancel: &Cancel) -> io::Result<Ran> {
        let _ = cancel;
        self.run(script)
    }

    /// Whether the first word of `command` is a plain word that `command -v` does not know.
    fn lacks(&self, command: &str, directory: &Path) -> bool;
}
